"""The files of an image: the output of the program, and whose processor time it tells."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import REPOSITORY
from imagefiles import ImageFiles
from saved import metrics, problems

PROGRAM = REPOSITORY / "checks" / "src" / "imagefiles" / "imagefiles.py"
#: A container of sorts: a helper has worked, and is there until it is told to end; the program does its work.
HELPED = """
import subprocess, sys
work = "import time\\nwhile time.process_time() < {seconds}: pass\\nprint(flush=True)\\ntime.sleep(60)"
helper = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
helper.stdout.readline()
program = subprocess.run([sys.argv[1], "use"])
helper.kill()
sys.exit(program.returncode)
"""


def test_both_states_of_the_cache_are_told_apart():
    assert metrics(ImageFiles, "imagefiles/passing", ranks=1) == {
        "stat_cold": 0.116453,
        "read_cold": 0.171762,
        "import_cold": 0.194657,
        "stat_warm": 0.083415,
        "read_warm": 0.158762,
        "import_warm": 0.205186,
        "helpers_warm": 0.3,
    }


def test_files_that_are_not_there_are_no_result():
    """The program then says why on its standard error, and nothing else."""
    assert any("metric stat_cold not found" in problem for problem in problems(ImageFiles, "imagefiles/failing", 1))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the program with its files, as the build step and the job do."""
    prefix = tmp_path_factory.mktemp("installed")
    program = prefix / "bin" / "imagefiles"
    program.parent.mkdir()
    program.write_text(PROGRAM.read_text())
    program.chmod(0o755)
    subprocess.run([sys.executable, PROGRAM, "make", prefix / "share" / "imagefiles"], check=True)
    return program


def measure(*words):
    command = [sys.executable, PROGRAM, "measure", "--copies", "2", "--cold", "nowhere", "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def helpers(said, cache="warm"):
    (line,) = [line for line in said.splitlines() if line.startswith(f"{cache}: ")]
    return float(line.split(" helpers ")[1].split()[0])


def test_all_files_are_found_and_read(installed):
    done = measure(installed, "use")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "found: files 3000 bytes 16128000 content 16128000 sum 499500"
    # Its own time is none of a helper's.
    assert helpers(done.stdout) == 0


def test_processor_time_beside_the_program_is_that_of_helpers(installed, tmp_path):
    wrapper = tmp_path / "container.py"
    wrapper.write_text(HELPED.format(seconds=0.3))
    done = measure(sys.executable, wrapper, installed)
    assert done.returncode == 0, done.stderr
    # Two of them in each state of the cache: those that have ended, with nobody to wait for them, are not told again.
    assert 0.5 < helpers(done.stdout, "cold") < 1.0
    assert 0.5 < helpers(done.stdout, "warm") < 1.0


def test_a_copy_that_finds_something_else_is_an_error(installed, tmp_path):
    fake = tmp_path / "imagefiles"
    fake.write_text('#!/bin/sh\necho \'{"files": \'$$\', "bytes": 1, "content": 1, "sum": 1}\'\ncat\n')
    fake.chmod(0o755)
    done = measure(fake, "use")
    assert done.returncode == 1
    assert "imagefiles: error: the copies did not find the same" in done.stderr
    assert "Traceback" not in done.stderr
