"""ReFrame as a process: its files, what it prints, and an end that leaves nothing behind (Linux)."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.node import project
from containercheck.results.cases import Case
from containercheck.results.formatting import say
from containercheck.results.request import ANNOUNCED
from containercheck.session import options, progress, usage

#: ReFrame's warning when it leaves out a file or a check that it cannot load.
LEFT_OUT = re.compile(r"WARNING: (.*(?:skipping test|is not copyable).*)")
#: Line at the end on cases that were not generated (application/full_axes.py).
FULL_AXES = re.compile(r"^\d+ more cases? belongs? to the full axes.*", re.MULTILINE)
#: ReFrame's warning when it cannot write to the results database.
NOT_STORED = re.compile(r"WARNING: failed to store results in the database: (.*)")
#: From linux/prctl.h: orphaned descendants become children of this process instead of init's.
PR_SET_CHILD_SUBREAPER = 36
#: Lowest rate of polling: ReFrame's default slows down to a poll in ten seconds, which would delay each job's end.
QUIET = {"RFM_POLL_RATE_MIN": "0.5"}
#: Rates of a dry run, which has no job: ReFrame sleeps between its steps all the same.
DRY = {"RFM_POLL_RATE_MIN": "20", "RFM_POLL_RATE_MAX": "20"}
#: Parts of the configuration that a session needs, as ``--show-config`` names them.
SYSTEM, STAGE, PREFIX = "systems/0", "systems/0/stagedir", "systems/0/prefix"
REPORT_FILE, DATABASE = "general/0/report_file", "storage/0/sqlite_db_file"
#: Starts ReFrame as its command does, and prints several parts of the configuration, of which that shows one at a time.
_SHOW = """
import json, sys
from reframe.core import runtime
from reframe.frontend import cli
names = json.loads(sys.argv.pop(1))
try:
    cli.main()
except SystemExit as end:
    if end.code:
        raise
print()
print(json.dumps({name: runtime.runtime().get_option(name, None) for name in names}))
"""
#: Seconds between the request to end and the killing of a process.
GRACE = 10.0
#: Seconds that ReFrame gets to end its jobs and to store results: a locked database alone takes it a minute.
PATIENCE = 180.0


@dataclass(frozen=True)
class Workplace:
    """The paths of the checks and of the files of a session.

    :ivar directory: directory in which ReFrame runs.
    :ivar checks: directory of the check files; in a checkout relative to ``directory``.
    :ivar config: settings for all sites, which a site's own file overrides.
    :ivar report_file: ReFrame's report, where it is set; see :func:`named_report`.
    """

    directory: Path = field(default_factory=project.work_directory)
    checks: str = str(project.CHECKS) if project.IS_INSTALLED else "checks/"
    config: Path = project.COMMON
    report_file: Path | None = None

    @property
    def reports(self) -> Path:
        """Return the directory of a session's reports."""
        return self.report.parent

    @property
    def report(self) -> Path:
        """Return ReFrame's report, with all later runs."""
        return self.report_file or self.directory / "reports" / "run-report.json"

    @property
    def latest(self) -> Path:
        """Return ReFrame's own report of its latest run of selected cases."""
        return self.reports / "latest-report.json"

    @property
    def log(self) -> Path:
        """Return the log of ReFrame's output in all runs."""
        return self.reports / "session.log"

    def clear(self, *more: Path) -> None:
        """Remove the files of an earlier session, which could be taken for those of this one."""
        for path in (self.latest, self.log, *more):
            path.unlink(missing_ok=True)


class Relay:
    """Passes signals on to the process that is waited for, and ends what the process leaves running.

    It sends SIGINT for every signal: from SIGTERM and SIGHUP ReFrame 4.10 makes an Exception, which is lost if a line
    is being logged, and all later signals are ignored then. KeyboardInterrupt is no Exception.
    """

    def __init__(self) -> None:
        """Begin without a process; signals are caught from ``with`` on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._received: signal.Signals | None = None
        self._asked = 0.0
        self._handlers: dict[int, Any] = {}

    @property
    def stopped_by(self) -> str:
        """Return the name of the signal that came, if one came."""
        return self._received.name if self._received else ""

    def __enter__(self) -> Relay:
        """Begin to catch signals, and keep ignoring those that the caller ignores (nohup)."""
        adopt_orphans(True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            # A child process inherits that a signal is ignored, but no handler.
            self._handlers[number] = signal.signal(number, self._ignore if ignored else self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers of before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        adopt_orphans(False)

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a process to end, despite interrupts, and return its exit status."""
        self._process, ended = process, threading.Event()
        threading.Thread(target=self._kill_late, args=(process, ended), daemon=True).start()
        try:
            if self._received:
                # The signal came while the process was being started.
                self._ask(process)
            return process.wait()
        finally:
            ended.set()
            self._process = None
            if self._received:
                end_children()

    def _pass_on(self, number: int, _: object) -> None:
        self._received = signal.Signals(number)
        if self._process:
            self._ask(self._process)

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        """Ask a process to end."""
        self._asked = self._asked or time.monotonic()
        process.send_signal(signal.SIGINT)

    def _kill_late(self, process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        """Kill a process that does not end, long after it was asked to."""
        while not ended.wait(1):
            if self._asked and time.monotonic() - self._asked > PATIENCE:
                process.kill()
                say(f"ReFrame did not end within {PATIENCE:g} s and was killed: look for jobs that still run or wait")
                return

    def _ignore(self, *_: object) -> None:
        pass


def adopt_orphans(wanted: bool) -> None:
    """Adopt orphaned descendants, or no longer: ReFrame asks its jobs to end, and does not wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def end_children() -> None:
    """Wait for all children, also adopted ones; kill those that do not end."""
    started = time.monotonic()
    # The wait has an end, as a process that hangs in the kernel cannot be killed.
    while time.monotonic() - started < 2 * GRACE:
        try:
            # waitpid returns 0 where no child has ended.
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
    """Return the process ids of this process's children."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain any character; then come the state and the parent.
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                processes.append(int(path.parent.name))
    return processes


class ReframeFailed(Exception):
    """ReFrame could not answer a query; the message is ReFrame's."""


def program() -> str:
    """Return the path of the ``reframe`` of this Python installation: another one may not have the library.

    :raises UsageError: there is none.
    """
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    places: list[Any] = [Path(sys.executable).parent, *scripts]
    paths = [Path(place, "reframe") for place in places]
    executable = next((path for path in paths if path.exists()), None)
    if not executable:
        raise usage.UsageError(f"{sys.executable} has no ReFrame: run {sys.executable} -m pip install reframe-hpc")
    return str(executable)


def environment(place: Workplace) -> dict[str, str]:
    """Return the environment of ReFrame: the site's configuration files come after the common one and override it.

    Where RFM_CONFIG_FILES names the common file too, it stays in its place there.
    """
    named = os.environ.get("RFM_CONFIG_FILES", "")
    files = [named] if str(place.config) in named.split(":") else [str(place.config), named]
    return {**os.environ, "RFM_CONFIG_FILES": ":".join(filter(None, files))}


@functools.lru_cache(maxsize=8)
def _configuration(arguments: tuple[str, ...], place: Workplace, given: Hashable) -> Any:
    """Ask ReFrame for the parts of its configuration, by one process: each takes half a second to start.

    :param given: what the answer depends on besides: variables of the environment, and the files' times.
    """
    names = json.dumps([SYSTEM, STAGE, PREFIX, REPORT_FILE, DATABASE])
    # Says what to do where this Python has no ReFrame.
    program()
    words = [sys.executable, "-c", _SHOW, names, "--nocolor", *arguments, f"{usage.ASKED}={SYSTEM}"]
    facts: dict[str, Any] = {"cwd": place.directory, "env": environment(place), "stdin": subprocess.DEVNULL}
    result = subprocess.run(
        words, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **facts
    )
    try:
        if result.returncode:
            raise ValueError
        return json.loads(result.stdout.rstrip("\n").rpartition("\n")[2])
    except ValueError:
        complaint = usage.complaint(result.stdout, options.OWN)
        if complaint:
            raise usage.UsageError(complaint) from None
        lines = result.stdout.split("\n")
        # Warnings come before the error.
        message = next((line for line in lines if "error: " in line.lower()), lines[0])
        raise ReframeFailed(message.split("ERROR: ")[-1] or f"reframe ended with status {result.returncode}") from None


def configured(arguments: Sequence[str], place: Workplace, name: str) -> Any:
    """Return a part of ReFrame's configuration; no check is run.

    :param name: one of :data:`SYSTEM`, :data:`STAGE`, :data:`PREFIX`, :data:`REPORT_FILE` and :data:`DATABASE`.
    :raises ReframeFailed: ReFrame cannot tell.
    :raises UsageError: ReFrame does not accept the arguments.
    """
    asked = replace(place, report_file=None)
    named = [*environment(place)["RFM_CONFIG_FILES"].split(":"), *arguments]
    files = frozenset((path, os.stat(path).st_mtime_ns) for path in named if os.path.isfile(path))
    # ReFrame sets this one itself, at the import, so that it appears here in the course of a session.
    variables = frozenset(item for item in os.environ.items() if item[0] != "RFM_INSTALL_PREFIX")
    return _configuration(tuple(arguments), asked, (variables, files))[name]


def names_checks(arguments: Sequence[str]) -> bool:
    """Return whether ReFrame's arguments name further directories or files of checks."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--checkpath", action="append")
    parser.add_argument("-R", "--recursive", action="store_true")
    known, _ = parser.parse_known_args(arguments)
    return bool(known.checkpath or known.recursive)


def without_names(arguments: Sequence[str]) -> list[str]:
    """Return ReFrame's arguments without the names of checks, to which it would add those of selected cases."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--name", action="append")
    return parser.parse_known_args(arguments)[1]


def named_report(arguments: Sequence[str], place: Workplace) -> Path | None:
    """Return the report that the site's file (``general/report_file``) or ``RFM_REPORT_FILE`` names.

    None where neither names one, and for a name with ``{sessionid}``, such as ReFrame's default: it changes.

    :raises UsageError: ReFrame does not accept the arguments.
    """
    try:
        name = configured(arguments, place, REPORT_FILE)
    except ReframeFailed:
        # ReFrame reports the error itself when it runs.
        return None
    return None if "{sessionid}" in name else Path(place.directory, os.path.expandvars(name)).expanduser()


def named_stage(arguments: Sequence[str], place: Workplace) -> Path:
    """Return ReFrame's stage directory: as configured, or ``stage`` in the directory of the session.

    :raises UsageError: ReFrame does not accept the arguments.
    """
    try:
        stage, prefix = (configured(arguments, place, name) for name in (STAGE, PREFIX))
    except ReframeFailed:
        # ReFrame reports the error itself when it runs.
        stage, prefix = "", ""
    return Path(place.directory, os.path.expandvars(stage or os.path.join(prefix, "stage"))).expanduser()


def named_database(arguments: Sequence[str], place: Workplace) -> Path:
    """Return the path of the site's results database.

    :raises ReframeFailed: ReFrame cannot tell.
    :raises UsageError: ReFrame does not accept the arguments.
    """
    name = configured(arguments, place, DATABASE)
    return Path(place.directory, os.path.expandvars(name)).expanduser()


def reframe(
    arguments: Sequence[str],
    place: Workplace,
    relay: Relay,
    known: Sequence[Case] | None = None,
    view: progress.View | None = None,
    problems: list[str] | None = None,
) -> int:
    """Run ReFrame, log its output, show its progress, and return its exit status.

    :param known: the cases that it is expected to run; None for a dry run, which is logged and not shown. Where all of
        them measure on this machine, ReFrame handles one after the other: it sets up, builds and polls no other case
        while one is measured, and polls that one every other second.
    :param view: what is shown; by default ReFrame's output.
    :param problems: gets what could not be shown.
    """
    place.reports.mkdir(parents=True, exist_ok=True)
    announced = place.reports / "announced-cases.jsonl"
    announced.unlink(missing_ok=True)
    # A session around this one may have set the variable.
    actions, rates, told = [], DRY, ""
    shown: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if known is not None:
        # A policy among the arguments comes later, and so overrides this one.
        serial = all(case.scheduler == "local" for case in known)
        actions = ["-r", "--exec-policy=serial"] if serial else ["-r"]
        rates, told = QUIET if serial else {}, str(announced)
        current = progress.Progress(known, place.directory / "stage", place.log, announced)
        shown = progress.shown(current, view or progress.Verbatim(), [] if problems is None else problems)
    with place.log.open("ab") as log, shown:
        status = relay.wait(
            subprocess.Popen(
                [program(), *actions, *arguments],
                cwd=place.directory,
                env={**rates, **environment(place), ANNOUNCED: told},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # The terminal's Ctrl-C reaches only this process, which passes it on to ReFrame once.
                start_new_session=True,
            )
        )
    announced.unlink(missing_ok=True)
    return status


def _printed(log: Path) -> str:
    """Return what ReFrame printed, without colors; empty where it did not come to that."""
    return progress.COLOR.sub("", log.read_text(encoding="utf-8", errors="replace")) if log.exists() else ""


def last_error(log: Path) -> str:
    """Return the last error that ReFrame or this library told, in its words; empty without one."""
    # The library stops ReFrame where the site's file has a mistake (containercheck/loading.py).
    lines = [re.split("ERROR: |^containercheck: ", line) for line in _printed(log).splitlines()]
    errors = [parts[-1] for parts in lines if len(parts) > 1]
    return errors[-1] if errors else ""


def not_stored(log: Path) -> str:
    """Return why ReFrame could not write the last results into its database, of which it only warns; else empty."""
    messages = [match[1] for match in NOT_STORED.finditer(_printed(log))]
    return messages[-1].strip() if messages else ""


def of_full_axes(log: Path) -> str:
    """Return the line on selected cases of the full axes that were not generated; empty without one."""
    match = FULL_AXES.search(_printed(log))
    return match[0] if match else ""


def left_out(log: Path) -> list[str]:
    """Return a problem where ReFrame left out a check that does not load, of which it only warns."""
    match = LEFT_OUT.search(_printed(log))
    return [f"a check file does not load: {match[1]}"] if match else []
