"""What programs say of their own build, in real output."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from conftest import run_of
from containercheck import Identity
from containercheck.job import processes
from containercheck.job.verdict import builds


def test_the_first_run_that_succeeded_tells_the_build_of_its_side(tmp_path):
    runs = []
    for number, (side, version, status) in enumerate(
        [("baseline", 1, 3), ("baseline", 2, 0), ("baseline", 4, 0), ("subject", 3, 0)]
    ):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "out").write_text(f"version {version}\n")
        runs.append(run_of(side, f"{number}", status=status))
    identity = [Identity("version", r"^version (\S+)"), Identity("instruction set", r"^set (\S+)", file="log")]
    told = {"baseline": {"version": "2"}, "subject": {"version": "3"}}
    assert builds.read(identity, runs, tmp_path) == told
    assert builds.read([], runs, tmp_path) == {}


@pytest.mark.parametrize(
    ("inside", "line"),
    [
        ("packed", "same build, executable installed"),
        ("installed", "same build, executable installed"),
        ("other", "not the same build: installed against other"),
    ],
)
def test_the_same_tree_is_proven_by_the_executable_that_the_ranks_ran(tmp_path, inside, line):
    (tmp_path / "image.json").write_text(json.dumps({"tree": {"executable": ["installed", "packed"]}}))
    runs = [run_of("baseline", "1", executable="installed"), run_of("subject", "2", executable=inside)]
    found = builds.read([], runs, tmp_path)
    assert builds.difference(found["baseline"], found["subject"]) == line
    # Of other images nothing is claimed: each program that is compiled twice is another executable.
    (tmp_path / "image.json").write_text("{}")
    assert builds.read([], runs, tmp_path) == {}


def test_the_executable_of_a_process_is_known_while_it_runs():
    program = Path("/proc/self/exe").read_bytes()
    assert processes.digest_of_program(os.getpid()) == hashlib.sha256(program).hexdigest()
    assert processes.digest_of_program(2**22 + 1) == ""


def test_an_identity_without_a_group_is_refused():
    with pytest.raises(ValueError, match="version: the pattern needs exactly one group"):
        Identity("version", "^version")
