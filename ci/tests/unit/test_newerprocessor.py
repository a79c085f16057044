"""The program for a newer processor: it runs where the processor has its instruction, and dies where it lacks it."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from containercheck.job import architectures
from containercheck.job.outputs import reasons

PATH = REPOSITORY / "checks" / "src" / "newerprocessor" / "newerprocessor.py"
SPEC = importlib.util.spec_from_file_location("newerprocessor_program", PATH)
newerprocessor = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(newerprocessor)

HERE = architectures.KNOWN.get(platform.machine())
pytestmark = pytest.mark.skipif(HERE is None, reason="no instruction is known")


def started(command, directory):
    words = [f"--elf={HERE.elf}", f"--end={HERE.end.hex()}"]
    words += [f"--instruction={name}={code.hex()}" for name, code in HERE.instructions]
    program = [sys.executable, str(PATH), *words, "--", *command]
    return subprocess.run(program, cwd=directory, capture_output=True, text=True)


def test_each_instruction_runs_where_the_processor_has_it_and_is_illegal_where_it_lacks_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = newerprocessor.has()
    programs = {name: newerprocessor.program(HERE.elf, code + HERE.end) for name, code in HERE.instructions}
    statuses = {name: newerprocessor.run(["sh"], text) for name, text in programs.items()}
    assert statuses == {name: 0 if name in known else 132 for name in programs}


def test_the_newest_that_lacks_is_taken_else_one_that_no_processor_has():
    names = [name for name, _ in HERE.instructions]
    assert newerprocessor.lacking(names, set(names[1:])) == "undefined"
    assert newerprocessor.lacking(names, set()) == names[-1]


def test_the_reason_of_such_an_end_is_the_instruction(tmp_path):
    done = started(["sh"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "status 132\n" in done.stdout
    died = subprocess.run(["sh", "-c", f"./{newerprocessor.NAME}"], cwd=tmp_path, capture_output=True, text=True)
    status = died.returncode if died.returncode >= 0 else 128 - died.returncode
    assert "illegal instruction" in reasons.describe(status, died.stderr, "")


def test_a_shell_that_does_not_start_is_told(tmp_path):
    done = started(["false"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the shell did not start: exit status 1" in done.stderr
