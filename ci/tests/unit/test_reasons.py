"""The line that is named as the reason of a failed run: the culprit's, never a follow-up, a hint or a summary.

``outputs/reasons`` has what programs printed, each planted once and run for real: with Open MPI 4.1.4 and MPICH 4.0.2
of Debian 12, Open MPI 5.0.11 and MPICH 5.0.2 from wheels, Slurm 22.05.8, Apptainer 1.4.5; only paths are changed.
``apptainer`` is under Open MPI 4 where there are ranks: ``truncated`` and ``damaged`` images, ``teardown`` a wrapper
that ends with status 148 after the run, ``mount_gone`` a killed squashfuse_ll, ``no_squashfuse`` a small /tmp. ``shm``
has a /dev/shm that is full, small, or not writable; ``tcp_daemon`` a node that the first one cannot reach. In each
directory, ``why`` is the reason.
"""

from __future__ import annotations

import itertools
import re

import pytest
from containercheck.job.outputs import reasons
from containercheck.job.outputs.reasons import CAUSE, DEATH, ERROR, LIBRARY
from saved import OUTPUTS

#: Where the programs of the table printed something; below each, files ``err`` and ``out``.
SAVED = [*sorted((OUTPUTS / "reasons").glob("*/*")), *sorted(OUTPUTS.glob("gromacs/newer*")), *OUTPUTS.glob("wrf/*")]


def printed(directory):
    """Return what a run printed on standard error and on standard output."""
    return tuple((directory / name).read_text(errors="replace") for name in ("err", "out"))


PLANTED = sorted(path.parent for path in (OUTPUTS / "reasons").glob("*/*/why"))


@pytest.mark.parametrize("directory", PLANTED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_reason_is_the_culprits_own_line(directory):
    said = (directory / "why").read_text().strip()
    status = int(re.match(r"exit status (\d+)", said)[1])
    assert reasons.describe(status, *printed(directory)) == said


def test_every_saved_output_has_its_reason():
    assert len(PLANTED) > 80
    assert sorted((OUTPUTS / "reasons").glob("*/*")) == PLANTED


#: Rows for which there is no output: here, no memory is limited by a cgroup.
UNSEEN = {("Slurm", r"^slurmstepd\S*: error: Detected \d+ oom.kill event")}


def test_every_row_was_seen_in_the_output_of_a_program():
    lines = itertools.chain.from_iterable(reasons._lines(text) for path in SAVED for text in printed(path))
    seen = {reasons._known_line(reasons._untagged(line)) for line in lines}
    unseen = {(row.program, row.pattern.pattern) for row in reasons.ROWS if row not in seen}
    assert unseen == UNSEEN


def test_memory_that_was_used_up_is_the_reason_and_not_what_srun_makes_of_it():
    """As slurmstepd words it in Slurm 21.08 and later, and before."""
    after = "srun: error: n1: task 0: Out Of Memory\nsrun: launch/slurm: _step_signal: Terminating StepId=7.0\n"
    for said in ("oom_kill event in StepId=7.0. Some", "oom-kill event(s) in step 7.0 cgroup. Some"):
        line = f"slurmstepd: error: Detected 1 {said} of the processes were killed."
        assert reasons.why(f"{after}{line}\n", "step 40\n") == line


@pytest.mark.parametrize(
    "follow",
    [
        "ERROR:   container cleanup failed: no instance found with name a\n",
        "FATAL:   first process with --sharens has already exited, could not execute process (pid 4)\n",
        "ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.\n",
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
        'Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages\n',
        "[n1:7] [[1,0],0] ORTE_ERROR_LOG: Out of resource in file ../orte/util/show_help.c at line 501\n",
        "srun: error: n1: task 0: Exited with exit code 1\n",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n",
    ],
)
@pytest.mark.parametrize("cause", ["Error: the mesh is not closed", "ERROR on proc 0: Cannot open input script a"])
def test_a_programs_own_error_wins_wherever_it_stands(follow, cause):
    for err, out in ((follow + cause, ""), (f"{cause}\n{follow}", ""), (follow, f"step 1\n{cause}\nLast command\n")):
        assert reasons.why(err, out) == cause


@pytest.mark.parametrize(
    "line",
    [
        "max error = 1.5e-3",
        "errors: 0",
        "relative error 3e-7",
        "no errors found",
        "warning: the file was not found",
        "Error = 0.25 after step 3",
    ],
)
def test_what_a_program_computes_is_no_error(line):
    said = reasons.find("[n1:7] Signal: Segmentation fault (11)\n", f"{line}\nstep 2\n")
    assert said.text == "[n1:7] Signal: Segmentation fault (11)"


TRACEBACK = "0: Traceback (most recent call last):\n0:   File\n0: a.b.Boom: no"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (TRACEBACK.replace("0: ", "[1,0]<stderr>:"), "a.b.Boom: no"),
        (TRACEBACK, "a.b.Boom: no"),
        ("[2026-11-25T10:00:00] FATAL:   while loading image", "FATAL: while loading image"),
        ("2026-11-25 10:00:00,123 Error: no mesh", "Error: no mesh"),
        ("\x1b[91mERROR  : Failed to create user namespace\x1b[0m", "ERROR : Failed to create user namespace"),
        # Calls that the kernel refused.
        ("chmod: changing permissions of 'a': Operation not permitted\nstep 2", "Operation not permitted"),
        ("dd: error writing 'a': File too large\nstep 2", "File too large"),
        ("sh: 1: fork: retry: Resource temporarily unavailable\nstep 2", "Resource temporarily unavailable"),
        ("io_uring_setup: Function not implemented\nstep 2", "Function not implemented"),
    ],
)
def test_tags_times_and_colours_before_a_line_hide_nothing(line, said):
    assert reasons.why(f"INFO:    squashfuse not found\n{line}\n", "").endswith(said)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (137, "killed, perhaps because the memory was used up"),
        (159, "a filter refuses a system call (seccomp)"),
        (-11, "segmentation fault"),
    ],
)
def test_a_status_that_speaks_of_a_signal_is_explained(status, said):
    assert reasons.describe(status, "", "") == f"exit status {status} ({said}): it printed nothing"
    assert reasons.meaning(1) == reasons.meaning(148) == reasons.meaning(255) == ""


def test_of_very_long_outputs_both_ends_are_looked_at():
    filling = "step\n" * 200000
    assert reasons.why(f"Error: first\n{filling}", "") == "Error: first"
    assert reasons.why(f"{filling}Error: last\n", "") == "Error: last"


def test_an_error_is_looked_for_among_the_lines_that_may_be_one():
    err = "[n1:7] PMIX ERROR: UNREACHABLE in file ptl_tcp_component.c at line 1849\nKilled\n"
    killed, unread = (CAUSE, ERROR, LIBRARY), (CAUSE, ERROR, DEATH)
    assert reasons.error(err, "", killed).startswith("[n1:7] PMIX ERROR: UNREACHABLE")
    assert reasons.error(err, "", unread) == ""
    dead = "[n1:7] Signal: Segmentation fault (11)"
    assert (reasons.error(dead, "", killed), reasons.error(dead, "", unread)) == ("", dead)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("openmpi4/sigill", "exited on signal 4 (Illegal instruction)."),
        ("openmpi5/kill", "exited on signal 9 (Killed)."),
        ("mpich4/kill", "EXIT STRING: Killed (signal 9)"),
        ("slurm/segv", "srun: error: node2: task 1: Segmentation fault"),
        # By its own doing, or not by a signal.
        ("openmpi4/bare_exit", ""),
        ("slurm/exit", ""),
        ("slurm/mpi", ""),
        ("bash/segv", ""),
    ],
)
def test_a_launcher_says_that_a_signal_ended_a_rank(case, said):
    found = reasons.died(*printed(OUTPUTS / "reasons" / case))
    assert found.endswith(said) and bool(found) == bool(said)
