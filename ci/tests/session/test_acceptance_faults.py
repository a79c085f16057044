"""Acceptance of real runtimes: equal ones are accepted, and each planted fault is rejected by its name.

A night and its failing twin are the first two tests of test_nightly.py, plain ``reframe -r`` is test_first.py.
"""

from __future__ import annotations

import re
import shutil

import pytest
from conftest import run_command, write_program

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no Apptainer on the PATH"),
]
#: Metrics of two containers between which nothing else may differ, and two checks that have answers only. Metrics of
#: ratios are left out: on a virtual machine their rounds spread by more than any margin.
ALL = "^(StartUp%|Isolation%|NewerProcessor%)"

IMAGE_FILES, PING_PONG = "^ImageFiles%variant=generic", "^PingPong%variant=generic%num_nodes=1"
OLDER = {"squashfuse_ll": 'exec /usr/bin/squashfuse "$@"'}
BURNING = {"squashfuse_ll": "(while read -r _ _ state _ </proc/$$/stat && [ $state != Z ]; do :; done) &\n"}
BURNING["squashfuse_ll"] += 'exec /usr/bin/squashfuse_ll "$@"'
APART = 'for word; do shift; [ "$word" = --sharens ] || set -- "$@" "$word"; done'
#: What is planted: the wrapper of the runtime, programs that it finds first, the check, and what it must be named by.
FAULTS = {
    "squashfuse in place of squashfuse_ll": ("", OLDER, IMAGE_FILES, r"stat_(cold|warm) is 0\.\d+ s .*worse than old"),
    # It is below the process that measures, as the runtime's own helpers are, whose processor time is a metric.
    "a helper that burns a core": ("", BURNING, IMAGE_FILES, r"helpers_warm is \d.* worse than old"),
    # What Apptainer tells its ranks is the first sign.
    "ranks in namespaces of their own": (APART, {}, PING_PONG, "new: variable APPTAINER_SHARENS_MASTER is gone"),
}


def installed(tmp_path, shift="", programs=None):
    """Make the runtime a command of another place, with a fault where one is planted, and return its path.

    :param shift: what it does first.
    :param programs: texts of programs that it finds before the machine's, by name.
    """
    wrapper, path = tmp_path / "bin" / "apptainer", tmp_path / "programs"
    for name, text in (programs or {}).items():
        write_program(path / name, text)
    write_program(wrapper, f'{shift}\nexport PATH="{path}:$PATH"\nexec {shutil.which("apptainer")} "$@"')
    return wrapper


def accept(tmp_path, new, check, seconds=200):
    """Run an acceptance with files of the test's own."""
    own = {"RFM_REPORT_FILE": str(tmp_path / "report.json"), "RFM_PREFIX": str(tmp_path)}
    words = ["acceptance", "apptainer", new, "--here", "-n", check, "-S", f"seconds={seconds}"]
    return run_command(*words, patience=1800, **own)


def test_a_runtime_is_accepted_against_itself_in_all_variants(tmp_path):
    done = accept(tmp_path, "apptainer", ALL, 100)
    assert (done.returncode, "acceptance: accepted: 4 accepted" in done.stdout) == (0, True), done.stdout


def test_a_runtime_that_starts_later_and_separates_more_is_rejected_by_metrics_and_answers(tmp_path):
    """Answers were asked of a side that an acceptance does not have."""
    worse = installed(tmp_path, "sleep 0.3; export APPTAINER_CONTAIN=1")
    done = accept(tmp_path, worse, "^(StartUp|Isolation)%", 100)
    assert (done.returncode, "acceptance: rejected: 0 accepted, 3 rejected" in done.stdout) == (1, True), done.stdout
    # One metric, or several, may have failed when the rounds end.
    failed = re.findall(r"^FAILED: StartUp (\w+): .*worse than old.*", done.stdout, re.MULTILINE)
    assert {*failed} == {"integrated", "generic"} and re.search(r"\bstart (?:is|by) 0\.[23]", done.stdout), done.stdout
    assert "tmp is 'no', must be 'yes'" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_runtime_is_rejected_by_name(fault, tmp_path):
    shift, programs, check, said = FAULTS[fault]
    done = accept(tmp_path, installed(tmp_path, shift, programs), check)
    assert done.returncode == 1, done.stdout
    assert re.search(said, done.stdout) and "acceptance: rejected: " in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("check", [IMAGE_FILES, PING_PONG])
def test_without_a_fault_nothing_is_rejected_where_faults_are(check, tmp_path):
    """It is the fault that is rejected, and not the wrapper; small margins may be left undecided on a busy machine."""
    done = accept(tmp_path, installed(tmp_path), check)
    assert done.returncode in (0, 2), done.stdout
    assert "1 accepted, 0 rejected, 0 undecided" in done.stdout or "0 accepted, 0 rejected, 1 undecided" in done.stdout
