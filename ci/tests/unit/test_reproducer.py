"""The script that repeats one run of a side by itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import write_commands
from containercheck.job import contract, launch

SIDES = [("baseline", "bare"), ("subject", "generic")]
JOB = f"""#!/bin/bash
#SBATCH --nodes=2
trap 'rm -rf -- copy.sif' EXIT
export GREETING='good day'
{contract.RUNS_FOLLOW}
python3 containercheck rounds
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write the script in the stage directory of a job whose options are known, and return a copy that was kept."""
    stage = tmp_path / "stage"
    stage.mkdir()
    monkeypatch.chdir(stage)
    (stage / "rfm_job.sh").write_text(JOB)
    (stage / "input.txt").write_text("the input\n")
    write_commands(stage, baseline='echo "$GREETING"; cat input.txt', subject="{{start}} echo {{options}} image.sif")
    launch.note("subject", {"start": ["env"], "options": ["--userns", "-B/a;b"]})
    launch.write_reproducer(SIDES)
    monkeypatch.chdir(tmp_path)
    return shutil.copy(stage / contract.REPRODUCER, tmp_path)


def reproduce(script, *words):
    done = subprocess.run(["bash", script, *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_side_runs_in_the_stage_directory_with_the_environment_of_the_job(script, tmp_path):
    (tmp_path / "stage" / "copy.sif").write_text("what the job removes")
    assert reproduce(script, "baseline") == (0, "good day\nthe input\n", "")
    assert reproduce(script, "subject") == (0, "--userns -B/a;b image.sif\n", "")
    assert (tmp_path / "stage" / "copy.sif").exists()


def test_it_is_short_and_its_commands_can_be_read_and_copied(script, tmp_path):
    text = (tmp_path / contract.REPRODUCER).read_text()
    assert "\nenv echo --userns '-B/a;b' image.sif\n" in text
    assert "#SBATCH --nodes=2" in text and "containercheck rounds" not in text
    assert len(text) < 2000
    assert (tmp_path / "stage" / contract.REPRODUCER).stat().st_mode & 0o077 == 0


def test_the_sides_are_listed_and_a_missing_stage_directory_is_told(script, tmp_path):
    status, _, said = reproduce(script)
    assert (status, "SIDE is baseline (bare) or subject (generic)" in said) == (2, True)
    shutil.rmtree(tmp_path / "stage")
    status, output, said = reproduce(script, "baseline")
    assert (status, output, said.count("\n")) == (1, "", 2)
    assert said.endswith("it is gone: run the check again with --keep-stage-files\n")


def test_of_a_duet_a_side_runs_on_its_half(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "stage")
    assert "\ntaskset -cp 0-1 $$ >/dev/null\nenv echo" in launch.reproducer_text(SIDES, tmp_path, "0-1")


def test_commands_that_are_missing_end_no_job(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path / "stage")
    write_commands(tmp_path / "stage", baseline="true")
    launch.write_reproducer(SIDES)
    assert f"there is no {contract.REPRODUCER}: " in capsys.readouterr().out
