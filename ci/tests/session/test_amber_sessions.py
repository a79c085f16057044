"""Amber with a program and an input that stand for a site's."""

from __future__ import annotations

import pytest
from amber_output import made  # noqa: F401
from conftest import REPOSITORY

CHECKS = REPOSITORY / "checks"


#: Stands in for pmemd: the first rank writes what it would write.
STAND_IN = """#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
[ "$1 $2 $3" = "-O -o mdout" ] || exit 2
for name in mdin prmtop inpcrd; do
    [ -e "$name" ] || { echo "error: no $name" >&2; exit 1; }
done
sed "s/on   48 MPI/on $(printf %4d "${OMPI_COMM_WORLD_SIZE:-1}") MPI/" made >mdout
"""


@pytest.fixture
def stand_in(tmp_path):
    """Make the stand-in and its input; return the site's entry for it."""
    program, case = tmp_path / "pmemd.MPI", tmp_path / "case"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    case.mkdir()
    for name in ("mdin", "prmtop", "inpcrd"):
        (case / name).touch()
    (case / "made").write_text(made())
    return {"executable": str(program), "input": str(case)}


@pytest.fixture
def bare(session, site):
    """Run the bare check with a site's entry."""

    def run(entry, openmp=1):
        settings = site(extras={"software": {"Amber": entry}} if entry else {})
        name = f"Amber%variant=bare%.*openmp={openmp}$"
        result = session("-C", settings, "-n", name, "-S", "full=yes", checks=CHECKS / "amber.py")
        return result, result.case("bare", "Amber")

    return run


def test_a_program_of_the_sites_is_run_with_its_input(bare, stand_in):
    result, case = bare(stand_in)
    assert result.status == 0, result.output
    assert {row["metric"]: row["baseline"] for row in case["results"]} == pytest.approx(
        {"rate": 3.4, "total": 257, "setup": 3, "exchange": 28.44}
    )
    assert case["provenance"]["builds"] == {"baseline": {"version": "16"}}


def test_what_the_program_says_of_a_wrong_input_is_the_reason(bare, stand_in, tmp_path):
    (tmp_path / "case" / "prmtop").unlink()
    result, case = bare(stand_in)
    assert result.status == 1
    assert "error: no prmtop" in case["fail_reason"], result.output


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"input": None}, "no input: that of Amber cannot be downloaded: name it in "),
        ({"executable": "/no/pmemd.MPI"}, "no software: this machine has no /no/pmemd.MPI"),
    ],
)
def test_what_is_not_there_fails_with_that_reason(bare, stand_in, change, reason):
    result, case = bare({**stand_in, **change})
    assert (result.status, case["result"]) == (1, "fail"), result.output
    assert f"misconfigured: {reason}" in case["fail_reason"]


def test_what_nobody_named_is_a_skip_with_that_reason(bare):
    result, case = bare(None)
    assert (result.status, case["result"]) == (0, "skip"), result.output
    reason = "no software: Amber cannot be downloaded: name program, options and input in site file, extras of "
    assert case["skip_reason"].startswith(reason)
