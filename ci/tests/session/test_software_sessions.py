"""Programs that the site names, in real sessions."""

from __future__ import annotations

import re

import pytest
from alya_output import convergence
from conftest import REPOSITORY, write_program, write_site


def wrapper(path, version):
    """Write a shell that says that it is another version."""
    write_program(path, f'PLANTED_VERSION={version} exec sh "$@"')
    return str(path)


def test_another_program_bare_and_in_the_container_with_a_tree_bound_in(session, site, tmp_path):
    entry = {
        "executable": wrapper(tmp_path / "bare" / "own-sh", "2024.1"),
        "environ": {"PLANTED_SET": "AVX_512"},
        "image_executable": "/own/tree/own-sh",
        "binds": [f"{tmp_path / 'tree'}:/own/tree"],
        "tolerance": 30,
    }
    wrapper(tmp_path / "tree" / "own-sh", "2023.2")
    settings = site(extras={"software": {"Planted": entry}})
    result = session("-C", settings, "-n", "Planted%variant=generic", "-S", "rounds=6", "-S", "fault=slow")
    assert result.status == 0, result.output
    case = result.case("generic")
    # What is set for the bare program does not reach the container.
    said = "not the same build: 2024.1 AVX_512 against 2023.2 SSE4.1"
    (row,) = case["results"]
    assert (row["verdict"], row["difference"], row["accepted"]) == ("pass", said, [None, 30])
    assert said in result.output


def test_a_program_that_the_site_names_takes_the_place_of_one_that_is_built(session, site):
    entry = {"executable": "/apps/pingpong", "launcher_options": ["--report-bindings"]}
    processor = {"arch": "zen2", "num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1}
    extras = {"software": {"Singletons": entry}, "release": "bookworm"}
    settings = site(scheduler="slurm", launcher="mpirun", processor=processor, extras=extras)
    result = session("--dry-run", "-C", settings, "-n", "Singletons", "-S", "ranks_per_node=2")
    (script,) = [path.read_text() for path in result.stage.rglob("rfm_job.sh")]
    assert "command -v /apps/pingpong" in script
    assert re.search(r"^# bare runs: mpirun -np 2 --report-bindings .*/apps/pingpong$", script, re.MULTILINE), script
    assert re.search(r"^# generic runs: mpirun -np 2 --report-bindings .* pingpong$", script, re.MULTILINE), script
    assert "mpicc" not in "".join(path.read_text() for path in result.stage.rglob("rfm_build.sh"))


# Programs that only a site has: stand-ins


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
