"""WRF's output: the log of its first rank, and how its input is made in the tree that it was built in."""

from __future__ import annotations

import subprocess

import pytest
from conftest import REPOSITORY, write_program
from containercheck.job import contract
from containercheck.job.outputs.reading import read_answer
from saved import OUTPUTS, build, metrics, problems, why
from wrf import WRF

PREPARE = REPOSITORY / "checks" / "src" / "wrf" / "prepare"


def test_the_metrics_of_a_run():
    found = metrics(WRF, "wrf/passing", ranks=2)
    assert set(found) == {"step", "seconds_wrf"}
    # Of all steps but the first; the rest of the run is its start, and what it reads and writes.
    assert 39 * found["step"] < found["seconds_wrf"] < 60 * found["step"]


def test_the_answers_of_a_run():
    found = {answer.name: read_answer(answer, OUTPUTS / "wrf" / "passing") for answer in WRF.answers}
    # It prints the means before a step: these are of 39 minutes.
    assert (found.pop("success"), found.pop("minutes")) == ("WRF", 39)
    assert all(value > 0 for value in found.values())


def test_it_says_its_version():
    assert build(WRF, "wrf/passing") == {"version": "4.7.1"}


def test_singletons_are_told():
    (problem,) = problems(WRF, "wrf/singletons", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


def test_a_run_of_fewer_steps_is_another_answer(tmp_path):
    log = (OUTPUTS / "wrf" / "passing" / "rsl.out.0000").read_text()
    before, _, after = log.rpartition("Timing for main")
    (tmp_path / "rsl.out.0000").write_text(before.rpartition("Timing for main")[0] + after)
    minutes = next(answer for answer in WRF.answers if answer.name == "minutes")
    assert read_answer(minutes, tmp_path) == 38


def test_a_model_that_became_unstable_broke_down():
    """Steps of ten minutes, which its advection does not take."""
    said = why("wrf/unstable")
    assert "exited on signal 11 (Segmentation fault)" in said


def test_a_fatal_error_is_the_reason():
    """Of its log, not what mpirun says of the abort."""
    said = why("wrf/fatal")
    assert said.startswith("FATAL CALLED FROM FILE:")
    assert said.endswith("The microphysics option does not exist: mp_physics = 1000")


@pytest.fixture
def tree(tmp_path):
    """Make a tree like the one that WRF is built in; its ideal.exe is a script."""
    case = tmp_path / "wrf" / "test" / "em_tropical_cyclone"
    for directory in (case, tmp_path / "wrf" / "run", tmp_path / "wrf" / "main", tmp_path / "work"):
        directory.mkdir(parents=True)
    (case / "input_sounding").write_text("sounding\n")
    (tmp_path / "wrf" / "run" / "LANDUSE.TBL").write_text("table\n")
    write_program(tmp_path / "wrf" / "main" / "wrf.exe", "")
    write_program(tmp_path / "wrf" / "main" / "ideal.exe", IDEAL)
    (case / "ideal.exe").symlink_to("../../main/ideal.exe")
    return tmp_path / "wrf"


IDEAL = """: completed vortex init
cp namelist.input wrfinput_d01
echo 'wrf: SUCCESS COMPLETE IDEAL INIT' >rsl.error.0000
"""


def prepare(tree):
    work = tree.parent / "work"
    (work / "namelist.input").write_text("namelist\n")
    # As in a view: the program is a link into the tree.
    link = work / "wrf.exe"
    link.symlink_to(tree / "main" / "wrf.exe")
    return subprocess.run(["sh", str(PREPARE), "./wrf.exe"], cwd=work, capture_output=True, text=True)


def test_the_input_is_made_with_what_is_in_the_programs_tree(tree):
    result = prepare(tree)
    assert (result.returncode, result.stderr) == (0, "")
    found = {name: (tree.parent / "work" / name).read_text() for name in ("wrfinput_d01", "LANDUSE.TBL")}
    assert found == {"wrfinput_d01": "namelist\n", "LANDUSE.TBL": "table\n"}


@pytest.mark.parametrize("lacking", ["test/em_tropical_cyclone/ideal.exe", "run/LANDUSE.TBL"])
def test_a_tree_of_another_case_is_a_reason_for_a_skip(tree, lacking):
    (tree / lacking).unlink()
    result = prepare(tree)
    said = f"error: no software: there is no {tree}/{lacking}: build WRF in that tree for em_tropical_cyclone\n"
    assert (result.returncode, result.stderr) == (contract.UNSUPPORTED, said)


def test_the_ideal_of_another_case_is_a_reason_for_a_skip(tree):
    write_program(tree / "main" / "ideal.exe", ": hill\n")
    result = prepare(tree)
    said = f"error: no software: {tree}/test/em_tropical_cyclone/ideal.exe is that of another case\n"
    assert (result.returncode, result.stderr) == (contract.UNSUPPORTED, said)


def test_an_input_that_is_not_made_is_an_error_with_the_log(tree):
    write_program(tree / "main" / "ideal.exe", ": completed vortex init\necho 'FATAL CALLED' >rsl.error.0000\n")
    result = prepare(tree)
    assert (result.returncode, result.stderr) == (1, "FATAL CALLED\n")
