"""Programs that only a site has: stand-ins, run in real sessions."""

from __future__ import annotations

import pytest
from alya_output import convergence
from conftest import REPOSITORY, write_program, write_site

CHECKS = REPOSITORY / "checks"


#: Stands in for Alya: the first rank writes what it would write.
STAND_IN = """[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
[ -e "$1.dat" ] || { echo "error: no $1.dat" >&2; exit 1; }
echo "processes ${OMPI_COMM_WORLD_SIZE:-1}" >"$1.log"
cp "$1.made" "$1.nsi.cvg"
"""


@pytest.fixture
def stand_in(tmp_path):
    """Make the stand-in and its input; return the site's entry for it."""
    program, case = tmp_path / "Alya.x", tmp_path / "case"
    write_program(program, STAND_IN)
    case.mkdir()
    (case / "sphere.dat").write_text("case")
    (case / "sphere.made").write_text(convergence(20).partition("\n")[2])
    patterns = {"ranks": r"^processes (\d+)"}
    return {"executable": str(program), "input": str(case), "options": ["sphere"], "patterns": patterns}


def of(entry):
    """Return the extras of a site whose software has this entry for Alya."""
    return {"software": {"Alya": entry}}


def test_a_program_of_the_sites_is_run_with_its_input(session, site, stand_in):
    result = session("-C", site(of(stand_in)), "-n", "Alya%variant=bare%.*openmp=1$", checks=CHECKS / "alya.py")
    assert result.status == 0, result.output
    case = result.case("bare", "Alya")
    assert {row["metric"]: row["baseline"] for row in case["results"]} == pytest.approx(
        {"assembly": 1.105, "solver": 0.605, "step": 1.71}
    )
    assert case["provenance"]["input"] == stand_in["input"]


#: What an entry lacks, and the reason that its case fails with.
LACKING = {
    "patterns": ({}, "no pattern of ranks: only a site knows the output of Alya: "),
    "options": ([], "no input: the options of the site's software, Alya, have to end with the case's name"),
}


def test_what_is_not_there_fails_with_that_reason(session, stand_in, tmp_path):
    extras = {key: {"containercheck": of({**stand_in, key: value})} for key, (value, _) in LACKING.items()}
    settings = write_site(tmp_path / "site.py", {key: {"extras": facts} for key, facts in extras.items()})
    result = session("-C", settings, "-n", "Alya%variant=bare%.*openmp=1$", checks=CHECKS / "alya.py")
    reasons = {case["partition"]: case["fail_reason"] for case in result.cases if case["result"] == "fail"}
    assert reasons.keys() == LACKING.keys(), result.output
    assert all(f"misconfigured: {reason}" in reasons[key] for key, (_, reason) in LACKING.items()), reasons
