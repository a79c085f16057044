"""Programs that only a site has: stand-ins, run in real sessions."""

from __future__ import annotations

import pytest
from alya_output import convergence
from conftest import REPOSITORY

CHECKS = REPOSITORY / "checks"


#: Stands in for Alya: the first rank writes what it would write.
STAND_IN = """#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
[ -e "$1.dat" ] || { echo "error: no $1.dat" >&2; exit 1; }
echo "processes ${OMPI_COMM_WORLD_SIZE:-1}" >"$1.log"
cp "$1.made" "$1.nsi.cvg"
"""


@pytest.fixture
def stand_in(tmp_path):
    """Make the stand-in and its input; return the site's entry for it."""
    program, case = tmp_path / "Alya.x", tmp_path / "case"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    case.mkdir()
    (case / "sphere.dat").write_text("case")
    (case / "sphere.made").write_text(convergence(20).partition("\n")[2])
    patterns = {"ranks": r"^processes (\d+)"}
    return {"executable": str(program), "input": str(case), "options": ["sphere"], "patterns": patterns}


def test_a_program_of_the_sites_is_run_with_its_input(session, site_file, stand_in):
    result = session("-C", site_file(stand_in), "-n", "Alya%variant=bare%.*openmp=1$", checks=CHECKS / "alya.py")
    assert result.status == 0, result.output
    case = result.case("bare", "Alya")
    assert {row["metric"]: row["baseline"] for row in case["results"]} == pytest.approx(
        {"assembly": 1.105, "solver": 0.605, "step": 1.71}
    )
    assert case["provenance"]["input"] == stand_in["input"]


def test_what_the_program_says_of_a_wrong_input_is_the_reason(session, site_file, stand_in):
    wrong = {**stand_in, "options": ["cube"]}
    result = session("-C", site_file(wrong), "-n", "Alya%variant=bare%.*openmp=1$", checks=CHECKS / "alya.py")
    assert result.status == 1
    assert "error: no cube.dat" in result.case("bare", "Alya")["fail_reason"], result.output


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"input": None}, "no input: that of Alya cannot be downloaded: name it in "),
        ({"patterns": {}}, "no pattern of ranks: only a site knows the output of Alya: "),
        ({"options": []}, "no input: the options of the site's software, Alya, have to end with the case's name"),
        ({"executable": "/no/Alya.x"}, "no software: this machine has no /no/Alya.x"),
    ],
)
def test_what_is_not_there_fails_with_that_reason(session, site_file, stand_in, change, reason):
    settings = site_file({**stand_in, **change})
    result = session("-C", settings, "-n", "Alya%variant=bare%.*openmp=1$", checks=CHECKS / "alya.py")
    case = result.case("bare", "Alya")
    assert (result.status, case["result"]) == (1, "fail"), result.output
    assert f"misconfigured: {reason}" in case["fail_reason"]


def test_a_container_needs_an_image_of_the_sites(session, site_file, stand_in):
    settings = site_file(stand_in)
    result = session("-C", settings, "-n", "Alya%variant=generic%.*openmp=1$", checks=CHECKS / "alya.py")
    case = result.case("generic", "Alya")
    assert case["skip_reason"].startswith("no image: Alya cannot be built: "), result.output


@pytest.fixture
def site_file(tmp_path):
    """Write a site file whose software has an entry for Alya."""

    def write(entry):
        extras = {"software": {"Alya": entry}}
        partition = {"name": "only", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"]}
        system = {
            "name": "here",
            "hostnames": [".*"],
            "partitions": [{**partition, "extras": {"containercheck": extras}}],
        }
        path = tmp_path / "site.py"
        path.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
        return str(path)

    return write
