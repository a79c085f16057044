"""The uses of this library, each with its failing twin: here acceptance of real runtimes, in all variants.

A night and its failing twin are the first two tests of test_nightly.py, plain ``reframe -r`` is test_first.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, write_program

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no Apptainer on the PATH"),
]
#: Metrics of two containers between which nothing else may differ, and two checks that have answers only. Metrics of
#: ratios are left out: on a virtual machine their rounds spread by more than any margin.
ALL = "^(StartUp%|Isolation%|NewerProcessor%)"


def accepted(tmp_path, new, checks, *options):
    """Run an acceptance of Apptainer against another one; return exit status and output."""
    own = {"RFM_REPORT_FILE": str(tmp_path / "report.json"), "RFM_PREFIX": str(tmp_path)}
    command = [sys.executable, "-m", "containercheck", "acceptance", "apptainer", new, "--here", "-n", checks, *options]
    environment = {**os.environ, **own}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=1800)
    return done.returncode, done.stdout


def wrapper(tmp_path, first):
    """Return the path of an Apptainer that does something first."""
    path = tmp_path / "bin" / "apptainer"
    path.parent.mkdir()
    write_program(path, f'{first}\nexec {shutil.which("apptainer")} "$@"')
    return path


def test_a_runtime_is_accepted_against_itself_in_all_variants(tmp_path):
    status, output = accepted(tmp_path, "apptainer", ALL, "-S", "seconds=100")
    assert (status, "acceptance: accepted: 4 accepted" in output) == (0, True), output


def test_a_runtime_that_starts_later_is_rejected_in_all_variants(tmp_path):
    status, output = accepted(tmp_path, wrapper(tmp_path, "sleep 0.3"), "^StartUp%", "-S", "seconds=100")
    assert (status, "acceptance: rejected: 0 accepted, 2 rejected" in output) == (1, True), output


def test_a_runtime_that_separates_more_is_rejected_by_the_answers(tmp_path):
    """They were asked of a side that an acceptance does not have."""
    status, output = accepted(tmp_path, wrapper(tmp_path, "export APPTAINER_CONTAIN=1"), "^Isolation%")
    assert (status, "tmp is 'no', must be 'yes'" in output) == (1, True), output
