"""A table of the lines that launchers, container runtimes, loaders and languages print when a run fails.

Standard library only, Python 3.6 or newer. Read by :mod:`containercheck.job.outputs.reasons`. Each row was seen in
real output: ``ci/tests/outputs/reasons`` has that, by program, and ``ci/tests/unit/test_reasons.py``
fails for a row that none of them needs. The first row that matches a line counts.
"""

import re
from typing import Iterator, NamedTuple, Pattern

from containercheck.job.container_runtimes import RUNTIMES

#: Levels of a line by how well it explains why a run failed, the best first.
#: CAUSE: known words for a cause. ERROR, WORDS: words for an error, or for something that could not be done, of a
#: program that is in no row. DEATH: how a process died, by its launcher, shell or signal handler. LIBRARY: a complaint
#: of MPI or PMIx, which may be harmless or a consequence of another rank's death. FOLLOW: a runtime's message because
#: another process failed, or while it tears down. PLAIN: no word of an error. SUMMARY: a launcher's message that has no
#: more than the exit status. NOISE: never a reason.
CAUSE, ERROR, WORDS, DEATH, LIBRARY, FOLLOW, PLAIN, SUMMARY, NOISE = range(9)

#: Further lines that belong to a line that matches. HELP: the rest of its sentence, and the facts (``Node: n1``) up to
#: the next ruler, as Open MPI prints its help texts. STACK: the last line of the paragraph, in which MPICH states the
#: error. A pattern: the next line that matches it, within a few lines.
LINE, HELP, STACK = "", "help", "stack"


class Meaning(NamedTuple):
    """The level of a line, and the further lines that belong to it."""

    level: int
    extent: str = LINE


class KnownLine(NamedTuple):
    """A row of the table: the program that prints a line, its pattern, and its meaning."""

    program: str
    pattern: Pattern[str]
    meaning: Meaning


_SIGNALS = "Segmentation fault|Bus error|Illegal instruction|Aborted|Floating[ -]point exception|Killed"


def _row(program: str, level: int, pattern: str, extent: str = LINE) -> KnownLine:
    return KnownLine(program, re.compile(pattern), Meaning(level, extent))


def _of_runtimes() -> Iterator[KnownLine]:
    for runtime in RUNTIMES:
        for level, patterns in ((FOLLOW, runtime.follow_ups), (CAUSE, runtime.causes), (NOISE, runtime.noise)):
            for pattern in patterns:
                yield _row(runtime.name, level, pattern)


#: All rows. They are applied to a line without the tags that launchers put before it.
ROWS = [
    # The dynamic loader (glibc's, musl's). It says itself that it ignores a library that cannot be preloaded.
    _row("ld.so", NOISE, r"cannot be preloaded \(.*\): ignored"),
    _row("ld.so", CAUSE, r"error while loading shared libraries: "),
    _row("ld.so", CAUSE, r"version `\S+' not found \(required by "),
    _row("ld.so", CAUSE, r"symbol lookup error: "),
    # The C library: a limit that stops whatever comes after it.
    _row("glibc", CAUSE, r"\bToo many open files\b"),
    # Container runtimes, with what the other processes of a node print when one has failed.
    *_of_runtimes(),
    # Python: see also reasons.py, for tracebacks.
    _row("Python", NOISE, r"^The above exception was the direct cause of|^During handling of the above exception"),
    _row("Python", CAUSE, r"^Fatal Python error: "),
    _row("Python", NOISE, r"^(?:Current t|T)hread 0x"),
    _row("Python", LIBRARY, r"^(?:BrokenPipeError|ConnectionResetError|EOFError|KeyboardInterrupt)\b"),
    _row("Python", CAUSE, r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:: |$)"),
    # Fortran.
    _row("Fortran", CAUSE, r"^At line \d+ of file ", r"^Fortran runtime error: "),
    _row("Fortran", CAUSE, r"^Fortran runtime error: "),
    _row("Fortran", CAUSE, r"^ERROR STOP\b"),
    _row("Fortran", DEATH, r"^Program received signal SIG"),
    _row("Fortran", NOISE, r"^Error termination\. Backtrace|^Backtrace for this error"),
    _row("Fortran", WORDS, r"^STOP \S"),
    # C and C++.
    _row("glibc", CAUSE, r"double free|^(?:free|malloc|realloc)\w*\(\): |^corrupted size vs|stack smashing detected"),
    _row("glibc", CAUSE, r": Assertion `.*' failed\.$"),
    _row("C++", CAUSE, r"^terminate called after throwing", r"^\s*what\(\): "),
    # Shells, and programs that start others.
    _row("bash", DEATH, rf"\bline \d+: +\d+ (?:{_SIGNALS})\b"),
    _row(
        "bash",
        CAUSE,
        r"\bline \d+: .*(?:command not found|No such file or directory|Permission denied|cannot execute)",
    ),
    _row("coreutils", CAUSE, r"^(?:env|nice|nohup|stdbuf|taskset|timeout): .*(?:No such file|Permission denied)"),
    # Applications with words of their own. After a heading the next line has the reason.
    _row(
        "GROMACS", CAUSE, r"^(?:Fatal error|Error in user input|Inconsistency in user input|System I/O error):$", r"\S"
    ),
    _row("WRF", CAUSE, r"^FATAL CALLED FROM FILE: ", r"\S"),
    _row("LAMMPS", CAUSE, r"^ERROR(?: on proc \d+)?: "),
    # Open MPI 4: mpirun and ORTE; Open MPI 5: prterun. Their help texts stand between rulers.
    _row("Open MPI", NOISE, r"^NOTE: invoking MPI_ABORT|^You may or may not see output|^exactly when Open MPI kills"),
    _row("Open MPI", NOISE, r"more process(?:es)? ha(?:s|ve) sent help message|_base_help_aggregate"),
    _row("Open MPI", NOISE, r"^Primary job +terminated normally, but|^a non-zero exit code\. Per user-direction"),
    _row("Open MPI", NOISE, r"^\d+ total processes failed to start"),
    _row("Open MPI", SUMMARY, r"^\S+ detected that one or more processes exited with non-zero status", HELP),
    _row("Open MPI", SUMMARY, r"^\S+ has exited due to process rank \d+", HELP),
    _row("Open MPI", DEATH, r"^\S+ noticed that process rank \d+ .* exited on", HELP),
    _row("Open MPI", DEATH, r"^MPI_ABORT was invoked on rank \d+", HELP),
    _row(
        "Open MPI", NOISE, r"^\*\*\* (?:Process received signal|End of error message)|^Signal code: |^Failing at addr"
    ),
    _row("Open MPI", DEATH, r"^Signal: [A-Z]"),
    _row("Open MPI", CAUSE, r"^It appears as if there is not enough space for ", HELP),
    _row("Open MPI", CAUSE, r"^\S+ was unable to (?:launch the specified application|find the specified exec)", HELP),
    _row("Open MPI", CAUSE, r"^A process or daemon was unable to complete a TCP connection", HELP),
    _row("Open MPI", CAUSE, r"^There are not enough slots available in the system", HELP),
    _row("Open MPI", CAUSE, r"^At least one pair of MPI processes are unable to reach each other", HELP),
    _row("Open MPI", CAUSE, r"^A requested component was not found, or was unable to be opened", HELP),
    _row("Open MPI", CAUSE, r"^A daemon failed to report back after being spawned", HELP),
    _row("Open MPI", LIBRARY, r"^ORTE was unable to reliably start one or more daemons", HELP),
    _row("Open MPI", LIBRARY, r"^(?:It looks like MPI_INIT failed|MPI_INIT has failed because)", HELP),
    _row("Open MPI", NOISE, r"ORTE_ERROR_LOG: .* in file \S*show_help\.c "),
    _row("Open MPI", LIBRARY, r"\b(?:ORTE_ERROR_LOG|OPAL ERROR|PMIX ERROR): "),
    _row("Open MPI", LIBRARY, r"^\*\*\* An error occurred in MPI_Init"),
    _row("Open MPI", ERROR, r"^\*\*\* An error occurred in MPI_", r"^\*\*\* MPI_ERR_"),
    _row("Open MPI", NOISE, r"^\*\*\* +(?:reported by|on (?:a NULL )?comm|Unknown error|MPI_ERRORS_ARE|and )"),
    _row("Open MPI", NOISE, r"^Local abort before MPI_INIT completed"),
    # MPICH: its library, and Hydra, which starts the ranks.
    _row("MPICH", DEATH, r"^Abort\(\d+\) on node \d+ .*: application called MPI_Abort"),
    _row("MPICH", ERROR, r"^Abort\(\d+\) on node \d+ .*: Fatal error in internal_(?!Init)", STACK),
    _row("MPICH", LIBRARY, r"^Abort\(\d+\) on node \d+ .*: Fatal error in internal_Init", STACK),
    _row("MPICH", NOISE, r"^(?:\w+\(\d+\)|\(unknown\)\(\))\.*: "),
    _row("Hydra", NOISE, r"^= +(?:BAD TERMINATION|PID \d+ RUNNING AT|EXIT CODE: |CLEANING UP|YOU CAN IGNORE)"),
    _row("Hydra", DEATH, r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: "),
    _row("Hydra", NOISE, r"^This typically refers to a problem with your|^Please see the FAQ page for debugging"),
    _row("Hydra", CAUSE, r"HYDU_create_process .* execvp error on file "),
    # UCX, the transport of both.
    _row("UCX", DEATH, r"^Caught signal \d+ "),
    _row("UCX", NOISE, r"^==== backtrace "),
    _row("UCX", ERROR, r"\bUCX +ERROR\b"),
    # Frames of a backtrace, of any program.
    _row("backtrace", NOISE, r"^#\d+ +0x|^\s+at \S+:\d+$|^\s*(?:\d+ +)?\S+\(\S*\+0x[0-9a-f]+\) ?\[0x"),
    # Slurm: srun, and slurmstepd on the node.
    _row("Slurm", NOISE, r"^srun: (?:Job step aborted: |Force Terminated |forcing job termination|got SIGCONT)"),
    _row("Slurm", NOISE, r"^srun: launch/slurm: _step_signal: Terminating "),
    _row("Slurm", CAUSE, r"error: \*\*\* (?:STEP|JOB) .* CANCELLED AT .* DUE TO "),
    _row("Slurm", NOISE, r"error: \*\*\* (?:STEP|JOB) .* CANCELLED AT "),
    _row("Slurm", CAUSE, r"^slurmstepd\S*: error: Detected \d+ oom.kill event"),
    _row("Slurm", SUMMARY, r"^srun: error: \S+: tasks? \S+: (?:Exited with exit code|Killed|Terminated)"),
    _row("Slurm", DEATH, r"^srun: error: \S+: tasks? \S+: [A-Z]"),
    _row("Slurm", CAUSE, r"^slurmstepd\S*: error: execve\(\): "),
]
