"""ReFrame as a process: its files, what it prints, and an end that leaves nothing behind (Linux)."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from containercheck.node import project
from containercheck.results import announcements
from containercheck.session import options, progress, usage

#: What ReFrame warns of when it leaves out a file or a check that it cannot load.
LEFT_OUT = re.compile(r"WARNING: (.*(?:skipping test|is not copyable).*)")
#: What is said at the end of cases that were not generated (application/full_axes.py).
FULL_AXES = re.compile(r"^\d+ more cases? belongs? to the full axes.*", re.MULTILINE)
#: What ReFrame warns of where it cannot write to the results database.
NOT_STORED = re.compile(r"WARNING: failed to store results in the database: (.*)")
#: From linux/prctl.h: orphaned descendants become children of this process instead of init's.
PR_SET_CHILD_SUBREAPER = 36
#: ReFrame's looks at a job grow rarer down to one in ten seconds, which at the end of each job would be waited for.
QUIET = {"RFM_POLL_RATE_MIN": "0.5"}
#: Seconds for what was asked to end, before it is killed.
GRACE = 10.0


@dataclass(frozen=True)
class Workplace:
    """Where a session finds the checks, and where it leaves its files.

    :ivar directory: where ReFrame runs.
    :ivar checks: directory of the check files; of a checkout's from there, as a person would write it.
    :ivar config: what is common to all sites; a site's own file has the last word.
    :ivar report_file: ReFrame's report, where somebody says; see :func:`named_report`.
    """

    directory: Path = field(default_factory=project.work_directory)
    checks: str = str(project.CHECKS) if project.IS_INSTALLED else "checks/"
    config: Path = project.COMMON
    report_file: Path | None = None

    @property
    def reports(self) -> Path:
        """Return the directory of what a session reports."""
        return self.report.parent

    @property
    def report(self) -> Path:
        """Return ReFrame's report, with all later runs."""
        return self.report_file or self.directory / "reports" / "run-report.json"

    @property
    def selection(self) -> Path:
        """Return the cases of that report which are run again, with the rounds that they have."""
        return self.reports / "repeat-cases.json"

    @property
    def repetition(self) -> Path:
        """Return ReFrame's own report of the latest of these runs."""
        return self.reports / "repeat-report.json"

    @property
    def log(self) -> Path:
        """Return what ReFrame printed, in all runs."""
        return self.reports / "session.log"

    def clear(self, *more: Path) -> None:
        """Remove what an earlier session left, which could be taken for this one's."""
        for path in (self.selection, self.repetition, self.log, *more):
            path.unlink(missing_ok=True)


class Relay:
    """Asks the one process that is waited for to end when a signal comes, and clears up after it.

    It is asked by SIGINT, whatever came: of SIGTERM and SIGHUP ReFrame 4.10 makes an Exception, which is lost where it
    meets a line that is being logged, and all later signals are ignored then. KeyboardInterrupt is no Exception.
    """

    def __init__(self) -> None:
        """Begin with nothing: signals are caught from ``with`` on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._received: signal.Signals | None = None
        self._handlers: dict[int, Any] = {}

    @property
    def stopped_by(self) -> str:
        """Return the name of the signal that came, if one came."""
        return self._received.name if self._received else ""

    def __enter__(self) -> Relay:
        """Begin to catch signals, other than those that the caller has chosen to ignore (nohup)."""
        adopt_orphans(True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            # A process inherits what is ignored, and not what a function takes.
            self._handlers[number] = signal.signal(number, self._ignore if ignored else self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore what happened to signals before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        adopt_orphans(False)

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a process, however often it is interrupted, and return its exit status."""
        self._process = process
        try:
            if self._received:
                # It came while the process was being started.
                process.send_signal(signal.SIGINT)
            return process.wait()
        finally:
            self._process = None
            if self._received:
                end_children()

    def _pass_on(self, number: int, _: object) -> None:
        self._received = signal.Signals(number)
        if self._process:
            self._process.send_signal(signal.SIGINT)

    def _ignore(self, *_: object) -> None:
        pass


def adopt_orphans(wanted: bool) -> None:
    """Make orphaned descendants this process's children: ReFrame asks its jobs to end, and does not wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def end_children() -> None:
    """Wait for all children, adopted ones too; kill those that do not end."""
    started = time.monotonic()
    # What cannot be killed (it hangs in the kernel) is not waited for.
    while time.monotonic() - started < 2 * GRACE:
        try:
            # One after the other; 0 where none has ended.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() - started > GRACE:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.05)


def children() -> list[int]:
    """Return this process's children."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold anything; then come the state and the parent.
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(path.parent.name))
    return found


class ReframeFailed(Exception):
    """ReFrame could not tell what it was asked; the message is its own."""


def program() -> str:
    """Return the path of the ``reframe`` that was installed for this Python: another one may not have the library.

    :raises UsageError: there is none.
    """
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    places: list[Any] = [Path(sys.executable).parent, *scripts]
    paths = [Path(place, "reframe") for place in places]
    found = next((path for path in paths if path.exists()), None)
    if not found:
        raise usage.UsageError(f"{sys.executable} has no ReFrame: run {sys.executable} -m pip install reframe-hpc")
    return str(found)


def environment(place: Workplace) -> dict[str, str]:
    """Return the environment of ReFrame: the site's files come after what is common, whose settings give way to them.

    Where the person names what is common too, its place is the person's.
    """
    named = os.environ.get("RFM_CONFIG_FILES", "")
    files = [named] if str(place.config) in named.split(":") else [str(place.config), named]
    return {**os.environ, "RFM_CONFIG_FILES": ":".join(filter(None, files))}


def ask(arguments: Sequence[str], place: Workplace) -> Any:
    """Return what ReFrame prints, which has to be JSON; nothing is run.

    :raises ReframeFailed: it is not.
    :raises UsageError: these arguments are none of ReFrame's.
    """
    words = [program(), "--nocolor", *arguments]
    facts: dict[str, Any] = {"cwd": place.directory, "env": environment(place), "stdin": subprocess.DEVNULL}
    result = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **facts)
    try:
        return json.loads(result.stdout)
    except ValueError:
        wrong = usage.complaint(result.stdout, options.OWN)
        if wrong:
            raise usage.UsageError(wrong) from None
        lines = result.stdout.split("\n")
        # What it warns of comes before.
        why = next((line for line in lines if "error: " in line.lower()), lines[0])
        raise ReframeFailed(why.split("ERROR: ")[-1] or f"reframe ended with status {result.returncode}") from None


def names_checks(arguments: Sequence[str]) -> bool:
    """Tell whether arguments of ReFrame say where checks are, beside ours."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--checkpath", action="append")
    parser.add_argument("-R", "--recursive", action="store_true")
    known, _ = parser.parse_known_args(arguments)
    return bool(known.checkpath or known.recursive)


def named_report(arguments: Sequence[str], place: Workplace) -> Path | None:
    """Return the report that the site's file (``general/report_file``) or ``RFM_REPORT_FILE`` names.

    None for nobody's, and for one of many: a name with ``{sessionid}``, as ReFrame's default has it.

    :raises UsageError: the arguments are none of ReFrame's.
    """
    try:
        name = ask([*arguments, "--show-config=general/0/report_file"], place)
    except ReframeFailed:
        # ReFrame says so itself when it is to run.
        return None
    return None if "{sessionid}" in name else Path(place.directory, os.path.expandvars(name)).expanduser()


def named_stage(arguments: Sequence[str], place: Workplace) -> Path:
    """Return ReFrame's stage directory: the site's, the person's, or ``stage`` where the session runs.

    :raises UsageError: the arguments are none of ReFrame's.
    """
    asked = [[*arguments, f"--show-config=systems/0/{what}"] for what in ("stagedir", "prefix")]
    try:
        with concurrent.futures.ThreadPoolExecutor() as both:
            stage, prefix = both.map(lambda words: ask(words, place), asked)
    except ReframeFailed:
        # As named_report.
        stage, prefix = "", ""
    return Path(place.directory, os.path.expandvars(stage or os.path.join(prefix, "stage"))).expanduser()


def named_database(arguments: Sequence[str], place: Workplace) -> Path:
    """Return ReFrame's results database of the site.

    :raises ReframeFailed: ReFrame cannot tell.
    :raises UsageError: the arguments are none of ReFrame's.
    """
    name = ask([*arguments, "--show-config=storage/0/sqlite_db_file"], place)
    return Path(place.directory, os.path.expandvars(name)).expanduser()


def reframe(
    arguments: Sequence[str],
    place: Workplace,
    relay: Relay,
    known: Mapping[str, progress.Awaited] | None = None,
    quiet: bool = False,
    view: progress.View | None = None,
) -> int:
    """Run ReFrame, log what it prints, show that or how far it is, and return its exit status.

    :param known: what it is expected to run; None for a run of which nothing is shown, and all is logged.
    :param quiet: whether its jobs measure on this machine: then it handles one case after the other, and while that is
        measured it sets up and builds no other, looks at no other, and looks at that one every other second.
    :param view: what is shown of what it prints; by default all.
    """
    place.reports.mkdir(parents=True, exist_ok=True)
    rows = place.reports / "announced-rows.jsonl"
    rows.unlink(missing_ok=True)
    actions = [] if "--dry-run" in arguments else ["-r"]
    if quiet:
        # The person's own choice comes later, and so counts.
        actions += ["--exec-policy=serial"]
    screen, current = progress.Screen(), progress.Progress(known or {}, place.directory / "stage", rows)
    with place.log.open("ab") as log, contextlib.nullcontext() if known is None else progress.shown(current, screen):
        process = subprocess.Popen(
            [program(), *actions, *arguments],
            cwd=place.directory,
            env={**(QUIET if quiet else {}), **environment(place), announcements.FILE: str(rows)},
            stdin=subprocess.DEVNULL,
            stdout=log if known is None else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The terminal's Ctrl-C reaches this process only, and goes on to ReFrame from here, once.
            start_new_session=True,
        )
        if known is None:
            return relay.wait(process)
        copying = threading.Thread(
            target=copy, args=(process, log, screen, current, view or progress.Verbatim()), daemon=True
        )
        copying.start()
        status = relay.wait(process)
        # Something that ReFrame left running may have its output open still.
        copying.join(timeout=10)
    rows.unlink(missing_ok=True)
    return status


def copy(
    process: subprocess.Popen[bytes],
    log: BinaryIO,
    screen: progress.Screen,
    current: progress.Progress,
    view: progress.View,
) -> None:
    """Show, log and count what a process prints, until it prints no more."""
    for line in process.stdout or ():
        with contextlib.suppress(ValueError):  # the log was closed: see the end of reframe()
            log.write(line)
            log.flush()
        text = line.decode(errors="surrogateescape")
        for shown in view.lines(text, current.saw(text)):
            screen.show(shown.encode(errors="surrogateescape"))


def not_stored(log: Path) -> str:
    """Return why ReFrame could not write the last results into its database; empty where it could: it only warns."""
    text = progress.COLOR.sub("", log.read_text(encoding="utf-8", errors="replace")) if log.exists() else ""
    found = [match[1] for match in NOT_STORED.finditer(text)]
    return found[-1].strip() if found else ""


def of_full_axes(log: Path) -> str:
    """Return the line about cases of the full axes that were selected and not generated; empty where there is none."""
    found = FULL_AXES.search(progress.COLOR.sub("", log.read_text(encoding="utf-8", errors="replace")))
    return found[0] if found else ""


def left_out(log: Path) -> list[str]:
    """Return what is wrong when ReFrame left out a check that does not load: it only warns of that."""
    found = LEFT_OUT.search(progress.COLOR.sub("", log.read_text(encoding="utf-8", errors="replace")))
    return [f"a check file does not load: {found[1]}"] if found else []
