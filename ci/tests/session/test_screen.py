"""What a person sees of a session and of the doctor, in real runs of ReFrame: with a terminal, without, and stopped."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import run_command
from places import PLAIN, place, run  # noqa: F401


def test_a_session_shows_its_cases_and_not_reframes_log(place):
    status, output = run(place, "-n", "Fine|Wrong", program=PLAIN)
    assert status == 1
    lines = output.splitlines()
    shown = [line.split() for line in lines if line.startswith(("pass ", "FAIL "))]
    assert shown == [["pass", "Fine", "bare", "rate", "1", "x"], ["FAIL", "Wrong", "bare"]]
    assert "ReFrame Setup" not in output
    assert "RUN      ]" in place.log.read_text()
    assert lines.count("2 case(s): 1 fail, 1 pass") == 1
    assert sum(line.startswith("FAILED: Wrong bare: ") for line in lines) == 2
    assert not (place.reports / "announced-cases.jsonl").exists()
    assert lines[-2].startswith("run: error: 1 of ") or lines[-1].startswith("run: error: 1 of ")


def doctor(*words):
    done = run_command("doctor", *words)
    return done.returncode, done.stdout, done.stderr


def test_the_doctor_tells_what_is_here_and_what_lacks_what():
    status, output, wrong = doctor("-n", "StartUp|Alya")
    assert (status, wrong) == (0, "")
    lines = output.splitlines()
    assert any(line.strip().startswith("runtimes ") and "pptainer" in line for line in lines)
    assert "3 of 6 cases will run: StartUp" in lines
    assert any(re.match(r"  Alya \(3 case\(s\)\): no software: Alya cannot be downloaded", line) for line in lines)


def test_an_image_of_ours_is_fit_for_this_machine():
    """The image that Start-up runs in, as ci/setup and the sessions before built it."""
    images = sorted(Path("~/.cache/containercheck/images").expanduser().glob("mpi-*.sif"))
    if not images:
        pytest.skip("no image was built here yet")
    done = run_command("image", images[0])
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split() for line in done.stdout.splitlines()]
    assert ["ok", "architecture", os.uname().machine] in told
    assert {line[1] for line in told if line[0] in ("ok", "note")} >= {"system", "MPI", "integrated", "start"}


def test_the_doctor_says_what_is_wrong_in_a_line(tmp_path):
    status, _, wrong = doctor("-C", str(tmp_path / "none.py"))
    assert status == 64
    assert re.match(r"doctor: error: .*none\.py", wrong), wrong
    assert len(wrong.splitlines()) == 1
    (tmp_path / "broken.py").write_text("site_configuration = {")
    status, _, wrong = doctor("-C", str(tmp_path / "broken.py"))
    assert status == 64
    assert len(wrong.splitlines()) == 1, wrong
