"""Amber's pmemd, which nobody here has: a made ``mdout``, line by line in the form that pmemd of Amber 16 writes."""

from __future__ import annotations

import types

import pytest
from amber import MDOUT, Amber
from conftest import REPOSITORY
from containercheck.node.outputs.reading import UnreadableError, read_answer
from saved import build, figures, problems

CHECKS = REPOSITORY / "checks"

ENERGIES = """
 NSTEP ={steps:>9}   TIME(PS) =     140.000  TEMP(K) =   298.55  PRESS =     0.0
 Etot   =    -10497.0096  EKtot   =      1779.8403  EPtot      ={potential:>16}
 BOND   =         0.0000  ANGLE   =         0.0000  DIHED      =         0.0000
 ------------------------------------------------------------------------------
"""
MADE = """
          -------------------------------------------------------
          Amber 16 PMEMD                              2016
          -------------------------------------------------------

| PMEMD implementation of SANDER, Release 16

| Conditional Compilation Defines Used:
| DIRFRC_COMTRANS
| MPI

| Running AMBER/MPI version on {ranks:>4} MPI task

{threads}
--------------------------------------------------------------------------------
   4.  RESULTS
--------------------------------------------------------------------------------
{first}
{last}

      A V E R A G E S   O V E R     500 S T E P S

{averages}

      R M S  F L U C T U A T I O N S

{fluctuations}
--------------------------------------------------------------------------------
   5.  TIMINGS
--------------------------------------------------------------------------------

|  NonSetup CPU Time in Major Routines, Average for All Tasks:
|
|     Routine           Sec        %
|     ------------------------------
|     DataDistrib      28.44   11.19
|     Nonbond         187.30   73.70
|     RunMD            12.08    4.75
|     ------------------------------
|     Total           254.14

|  Final Performance Info:
|     -----------------------------------------------------
|     Average timings for last     500 steps:
|     Elapsed(s) =      25.07 Per Step(ms) =      50.14
|         ns/day =       3.45   seconds/ns =   25070.00
|
|     Average timings for all steps:
|     Elapsed(s) =     254.36 Per Step(ms) =      50.87
|         ns/day =       3.40   seconds/ns =   25436.13
|     -----------------------------------------------------

|  Master Setup CPU time:            0.54 seconds
|  Master NonSetup CPU time:       254.10 seconds
|  Master Total CPU time:          254.64 seconds     0.07 hours

|  Master Setup wall time:           3    seconds
|  Master NonSetup wall time:      254    seconds
|  Master Total wall time:         257    seconds     0.07 hours
"""


def made(ranks=48, threads="", average="-12276.8499", first="-12301.5500"):
    """Return what a run writes."""
    found = {
        "first": ENERGIES.format(steps=500, potential=first),
        "last": ENERGIES.format(steps=5000, potential="-12250.1200"),
        "averages": ENERGIES.format(steps=5000, potential=average),
        "fluctuations": ENERGIES.format(steps=5000, potential="29.4411"),
    }
    threads = threads and f"| Number of openmp threads per MPI task: {threads:>5}\n"
    return MADE.format(ranks=ranks, threads=threads, **found)


@pytest.fixture
def output(tmp_path):
    """Write the output of a run; return where."""

    def write(text):
        (tmp_path / "out").touch()
        (tmp_path / MDOUT).write_text(text)
        return str(tmp_path)

    return write


def test_rate_and_times_are_read(output):
    """The rate of all steps: that of the last ones stands before it."""
    assert figures(Amber, output(made()), ranks=48) == {"rate": 3.4, "total": 257, "setup": 3, "exchange": 28.44}


def test_a_pmemd_that_says_nothing_of_what_its_ranks_exchange_has_the_other_figures(output):
    text = made().replace("|     DataDistrib      28.44   11.19\n", "")
    assert figures(Amber, output(text), ranks=48) == {"rate": 3.4, "total": 257, "setup": 3}


def test_energies_are_of_the_first_step_and_of_all_on_average(output, tmp_path):
    output(made())
    assert [read_answer(one, tmp_path) for one in Amber.answers] == [5000, -12301.55, -12276.8499]


def test_it_says_its_version(output):
    assert build(Amber, output(made())) == {"version": "16"}


@pytest.mark.parametrize("told", ["nodes", "MPI task"])
def test_fewer_ranks_are_noticed(output, told):
    """As older ones say it, and newer ones."""
    (problem,) = problems(Amber, output(made(ranks=1).replace("MPI task\n", f"{told}\n")), ranks=48)
    assert "ran with 1 ranks instead of 48" in problem


@pytest.mark.parametrize(("energy", "said"), [("NaN", "is not finite"), ("*" * 14, "could not convert")])
def test_a_system_that_explodes_has_no_energy(output, energy, said):
    (problem,) = problems(Amber, output(made(average=energy)), ranks=48)
    assert "answer potential_energy_" in problem
    assert said in problem


def test_a_run_that_ended_early_has_no_rate(output):
    (problem,) = problems(Amber, output(made().partition("      A V E R A G E S")[0]), ranks=48)
    assert "figure rate not found" in problem


def answers_of(threads):
    """Return the answers of a case with so many threads, as ReFrame makes it."""
    case = types.SimpleNamespace(openmp=threads, answers=list(Amber.answers))
    Amber.choose_threads(case)
    return case.answers


def test_threads_are_confirmed_where_there_is_more_than_one(output, tmp_path):
    assert [one.name for one in answers_of(1)] == [one.name for one in Amber.answers]
    confirmed = answers_of(6)[-1]
    output(made(ranks=8, threads=6))
    assert read_answer(confirmed, tmp_path) == "6"
    output(made(ranks=8))
    with pytest.raises(UnreadableError, match="answer threads not found"):
        read_answer(confirmed, tmp_path)


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
    assert {row["figure"]: row["baseline"] for row in case["results"]} == pytest.approx(
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
        ({"input": None}, "no input: nobody can download that of Amber: name it in "),
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
    reason = "no software: nobody can download Amber: name program, options and input in site file, extras of "
    assert case["skip_reason"].startswith(reason)
