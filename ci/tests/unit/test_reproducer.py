"""The script that repeats one run of a side by itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from containercheck.node import contract
from containercheck.node.job import reproducer

SIDES = [("baseline", "bare"), ("subject", "generic")]
JOB = """#!/bin/bash
#SBATCH --nodes=2
module load made/1.0
export GREETING='good day'
cat >baseline.sh <<'END'
cat input.txt
END
python3 containercheck rounds
"""


@pytest.fixture
def stage(tmp_path):
    """Make the stage directory of a job whose options are known."""
    stage = tmp_path / "stage"
    (stage / "rounds").mkdir(parents=True)
    (stage / "rounds" / "out").write_text("of a run\n")
    texts = {
        "rfm_job.sh": JOB.replace("module load made/1.0\n", ""),
        "baseline.sh": 'echo "$GREETING"; cat input.txt',
        "subject.sh": f'env $(cat subject.start) echo -B"{stage}:/rfm_workdir" $(cat subject.options) image.sif',
        "subject.start": "\n",
        "subject.options": "--userns --sharens -B/a;b\n",
        "input.txt": "the input\n",
        "prepare.sh": f"yes | head -c 6000000 >{stage}/large.bin",
    }
    for name, text in texts.items():
        (stage / name).write_text(text)
    (tmp_path / "image.sif").write_text("an image")
    (stage / "image.sif").symlink_to(tmp_path / "image.sif")
    return stage


def reproduce(script, *words, cwd):
    done = subprocess.run(["bash", str(script), *words], cwd=cwd, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def kept(stage):
    """Write the script, and remove the stage directory as after a pass."""
    reproducer.write(SIDES, stage / contract.JOB, stage)
    return Path(shutil.copy(stage / contract.REPRODUCER, stage.parent))


def test_it_runs_by_itself_when_the_stage_directory_is_gone(stage, tmp_path):
    script = kept(stage)
    shutil.rmtree(stage)
    assert reproduce(script, "baseline", cwd=tmp_path) == (0, "good day\nthe input\n", "")
    status, output, _ = reproduce(script, "subject", "elsewhere", cwd=tmp_path)
    work = tmp_path / "elsewhere"
    # The commands have no substitution, the options of this node, and the new place.
    assert (status, output) == (0, f"-B{work}:/rfm_workdir --userns --sharens -B/a;b image.sif\n")
    assert (work / "image.sif").read_text() == "an image"
    assert not (work / "rounds").exists()


def test_the_commands_in_it_can_be_read_and_copied(stage):
    text = kept(stage).read_text()
    assert "$(cat subject" not in text
    assert f"""\nenv echo -B"{stage}:/rfm_workdir" --userns --sharens '-B/a;b' image.sif\n""" in text
    assert "#SBATCH --nodes=2" in text
    assert reproducer.environment_of(JOB).splitlines()[-2:] == ["module load made/1.0", "export GREETING='good day'"]


def test_which_sides_there_are_is_told(stage, tmp_path):
    status, _, said = reproduce(kept(stage), cwd=tmp_path)
    assert (status, "SIDE is baseline (bare) or subject (generic)" in said) == (2, True)


def test_what_is_too_large_is_linked_or_made_again(stage, tmp_path):
    subprocess.run(["bash", "prepare.sh"], cwd=stage, check=True)
    script = kept(stage)
    assert script.stat().st_size < 1 << 20
    assert reproduce(script, "baseline", cwd=tmp_path)[2] == ""
    assert (tmp_path / "reproduce-baseline" / "large.bin").readlink() == stage / "large.bin"
    shutil.rmtree(stage)
    shutil.rmtree(tmp_path / "reproduce-baseline")
    status, _, said = reproduce(script, "baseline", cwd=tmp_path)
    assert (status, said) == (0, "made again: large.bin\n")
    assert (tmp_path / "reproduce-baseline" / "large.bin").stat().st_size == 6000000


def test_a_stage_directory_that_cannot_be_packed_ends_no_job(stage, capsys):
    (stage / "subject.sh").unlink()
    reproducer.write(SIDES, stage / contract.JOB, stage)
    assert f"there is no {contract.REPRODUCER}: " in capsys.readouterr().out
