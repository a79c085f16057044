"""Run ReFrame as a process that leaves no other process behind; read its configuration and the warnings of its log."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.job import contract, processes
from containercheck.reframe_internals import ANNOUNCED
from containercheck.results.cases import Case
from containercheck.results.formatting import CommandError, say
from containercheck.session import usage
from containercheck.session.progress import Progress, View

#: Seconds between the request to end and the kill of a process.
GRACE = 10.0
#: Seconds for ReFrame to end its jobs and to store results. A locked database alone takes a minute.
PATIENCE = 180.0
#: Seconds between two checks of a running process.
INTERVAL = 1.0
#: ReFrame's built-in system, which it chooses if no system of a site file has a matching host name.
BUILTIN = "generic"
#: A color in ReFrame's output.
COLOR = re.compile(r"\x1b\[[0-9;]*m")
#: ReFrame's warning when it leaves out a file or a check that it cannot load.
LEFT_OUT = r"WARNING: (.*(?:skipping test|is not copyable).*)"
#: ReFrame's warning when it cannot write to the results database.
NOT_STORED = r"WARNING: failed to store results in the database: (.*)"
#: Errors of ReFrame, and errors of the library about mistakes in the site file (containercheck/__init__.py).
ERROR = r"(?:.*ERROR: |^containercheck: )(.*)"
#: Rates of polling, in a second. ReFrame's default slows down to one poll in ten seconds, which would delay each
#: job's end. A poll of a local job is one system call.
QUIET = {"RFM_POLL_RATE_MIN": "2", "RFM_POLL_RATE_MAX": "2"}
#: Rates of a dry run: ReFrame sleeps between its steps even without a job.
DRY = {"RFM_POLL_RATE_MIN": "20", "RFM_POLL_RATE_MAX": "20"}
#: Starts ReFrame like its command, checks the extras of the site file, and prints several parts of the configuration.
_SHOW = """
import json, sys
from reframe.core import config, runtime
from reframe.frontend import cli
try:
    cli.main()
except SystemExit as end:
    if end.code:
        raise
from containercheck.site import sites
try:
    sites.current()
except sites.SiteError as error:
    sys.exit(f"ERROR: {error}")
options = dict(system="systems/0", stage="systems/0/stagedir", prefix="systems/0/prefix",
               report="general/0/report_file", database="storage/0/sqlite_db_file")
values = {name: runtime.runtime().get_option(option, None) for name, option in options.items()}
files = runtime.runtime().site_config.sources
values.update(files=files, systems=[system["name"] for system in config.load_config(*files)["systems"]])
print()
print(json.dumps(values))
"""


class Relay:
    """Passes signals on to a running process, and ends its remaining children.

    It sends SIGINT for every signal. For SIGTERM and SIGHUP, ReFrame 4.10 raises an Exception. That is lost while a
    line is logged, and then all later signals are ignored. KeyboardInterrupt is not an Exception.
    """

    def __init__(self) -> None:
        """Begin without a process; ``with`` begins to catch signals."""
        self._process: subprocess.Popen[bytes] | None = None
        self._received: signal.Signals | None = None
        self._killed_at = float("inf")
        self._handlers: dict[int, Any] = {}

    @property
    def stopped_by(self) -> str:
        """Return the name of the received signal; empty for none."""
        return self._received.name if self._received else ""

    def __enter__(self) -> Relay:
        """Begin to catch signals; signals that the caller ignores (nohup) remain ignored."""
        # ReFrame requests its jobs to end and does not wait for them.
        processes.adopt_orphans()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            # A child process inherits ignored signals, but not handlers.
            handler = (lambda *_: None) if ignored else (lambda received, _: self.stop(signal.Signals(received)))
            self._handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the earlier signal handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        processes.adopt_orphans(False)

    def stop(self, received: signal.Signals) -> None:
        """Request the end of the process, or of the next one if there is none."""
        self._received = received
        if self._process:
            self._killed_at = min(self._killed_at, time.monotonic() + PATIENCE)
            self._process.send_signal(signal.SIGINT)

    def wait(self, process: subprocess.Popen[bytes], meanwhile: Callable[[], None] = lambda: None) -> int:
        """Wait for a process to end, despite signals, and return its exit status.

        :param meanwhile: called every second. If the reader of its output is gone (head), the process is stopped.
        """
        self._process = process
        if self._received:
            # The signal came during the start of the process.
            self.stop(self._received)
        # Not earlier, because a child process inherits blocked signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        while process.poll() is None:
            signal.sigtimedwait({signal.SIGCHLD}, INTERVAL)
            try:
                meanwhile()
            except BrokenPipeError:
                self.stop(signal.SIGTERM)
                meanwhile = _nothing
            if time.monotonic() > self._killed_at:
                self._killed_at = float("inf")
                process.kill()
                say(f"ReFrame did not end within {PATIENCE:g} s and was killed: look for jobs that still run or wait")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self._process = None
        if self._received:
            end_children()
        return process.returncode


def _nothing() -> None:
    pass


def end_children() -> None:
    """Wait for all children, also adopted ones; kill those that do not end."""
    started = time.monotonic()
    # The wait is limited, because a process that hangs in the kernel cannot be killed.
    while time.monotonic() - started < 2 * GRACE:
        try:
            # waitpid returns 0 if no child has ended.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() - started > GRACE:
            for path in Path("/proc/self/task").glob("*/children"):
                for child in path.read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)
        time.sleep(0.05)


@dataclass(frozen=True)
class Workplace:
    """The paths of the checks and of the files of a session.

    :ivar directory: directory in which ReFrame runs.
    :ivar checks: directory of the check files; in a checkout relative to ``directory``.
    :ivar config: settings for all sites, which a site's own file overrides.
    :ivar report_file: ReFrame's report, if it is set; see :class:`Configuration`.
    :ivar stage_directory: ReFrame's stage directory, if it is known; see :class:`Configuration`.
    """

    directory: Path = field(default_factory=contract.work_directory)
    checks: str = str(contract.CHECKS) if contract.IS_INSTALLED else "checks/"
    config: Path = contract.COMMON
    report_file: Path | None = None
    stage_directory: Path | None = None

    @property
    def stage(self) -> Path:
        """Return ReFrame's stage directory; by default that of a checkout."""
        return self.stage_directory or self.directory / "stage"

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
        """Return ReFrame's report of its latest run of selected cases only."""
        return self.reports / "latest-report.json"

    @property
    def log(self) -> Path:
        """Return the log of ReFrame's output in all runs."""
        return self.reports / "session.log"

    def clear(self) -> None:
        """Remove the files of an earlier session, so that they are not confused with those of this one."""
        for path in (self.latest, self.log):
            path.unlink(missing_ok=True)


class ReframeFailed(CommandError):
    """ReFrame could not answer a query; the message is ReFrame's."""


@dataclass(frozen=True)
class Configuration:
    """The parts of ReFrame's configuration that the commands need.

    :ivar system: the chosen system, as in the site file.
    :ivar stage: the stage directory.
    :ivar report: path of the report (``general/report_file`` or ``RFM_REPORT_FILE``); None for a name with
        ``{sessionid}``, such as ReFrame's default: it changes.
    :ivar database: path of the results database.
    :ivar files: configuration files of the site, other than the common one.
    :ivar systems: names of the systems in them.
    """

    system: Mapping[str, Any]
    stage: Path
    report: Path | None
    database: Path
    files: tuple[str, ...]
    systems: tuple[str, ...]


def configuration(arguments: Sequence[str], place: Workplace) -> Configuration:
    """Query ReFrame's configuration with these arguments, without a run of checks.

    :raises ReframeFailed: ReFrame does not load the configuration, or an extra is wrong.
    :raises UsageError: ReFrame does not accept the arguments.
    """
    named = [*environment(place)["RFM_CONFIG_FILES"].split(":"), *arguments]
    changed = [(name, os.stat(name).st_mtime_ns) for name in named if os.path.isfile(name)]
    # ReFrame sets this variable when it is imported.
    variables = [item for item in os.environ.items() if item[0] != "RFM_INSTALL_PREFIX"]
    asked = replace(place, report_file=None, stage_directory=None)
    return _configuration(tuple(arguments), asked, frozenset([*variables, *changed]))


@functools.lru_cache(maxsize=8)
def _configuration(arguments: tuple[str, ...], place: Workplace, given: frozenset[Any]) -> Configuration:
    """Query ReFrame, which takes half a second.

    :param given: other facts that may change the answer: variables of the environment, and the files' times.
    """
    # It raises an error if this Python has no ReFrame.
    program()
    result = subprocess.run(
        [sys.executable, "-c", _SHOW, "--nocolor", *arguments, f"{usage.ASKED}=systems/0"],
        cwd=place.directory,
        env=environment(place),
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines = result.stdout.rstrip("\n").split("\n")
    if result.returncode or not lines[-1].startswith("{"):
        if complaint := usage.complaint(result.stdout):
            raise usage.UsageError(complaint)
        # Warnings come before the error.
        message = next((line for line in lines if "error: " in line.lower()), lines[0])
        raise ReframeFailed(message.split("ERROR: ")[-1] or f"reframe ended with status {result.returncode}")
    parts = json.loads(lines[-1])

    def path(name: str) -> Path:
        return Path(place.directory, os.path.expandvars(name)).expanduser()

    return Configuration(
        parts["system"],
        path(parts["stage"] or os.path.join(parts["prefix"], "stage")),
        None if "{sessionid}" in parts["report"] else path(parts["report"]),
        path(parts["database"]),
        tuple(name for name in parts["files"] if name not in ("<builtin>", str(place.config))),
        tuple(name for name in parts["systems"] if name != BUILTIN),
    )


def program() -> str:
    """Return the path of the ``reframe`` of this Python installation, as another one may not have the library.

    :raises UsageError: there is none.
    """
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    places = [os.path.dirname(sys.executable), sysconfig.get_path("scripts"), user]
    executable = shutil.which("reframe", path=os.pathsep.join(places))
    if not executable:
        raise usage.UsageError(f"{sys.executable} has no ReFrame: run {sys.executable} -m pip install reframe-hpc")
    return executable


def environment(place: Workplace) -> dict[str, str]:
    """Return the environment of ReFrame: the site's configuration files come after the common one and override it.

    If RFM_CONFIG_FILES names the common file too, the order of RFM_CONFIG_FILES is kept.
    """
    named = os.environ.get("RFM_CONFIG_FILES", "")
    files = [named] if str(place.config) in named.split(":") else [str(place.config), named]
    return {**os.environ, "RFM_CONFIG_FILES": ":".join(filter(None, files))}


def without_names(arguments: Sequence[str]) -> list[str]:
    """Return ReFrame's arguments without the names of checks, because ReFrame adds names of selected cases to them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--name", action="append")
    return parser.parse_known_args(arguments)[1]


def reframe(
    arguments: Sequence[str],
    place: Workplace,
    relay: Relay,
    known: Sequence[Case] | None = None,
    view: View | None = None,
) -> int:
    """Run ReFrame, dry or not, log its output, show its progress, and return its exit status.

    :param known: the cases that it is expected to run; None for a run that is logged and not shown. If all of them
        measure on this machine, ReFrame handles one after the other. During a measurement it does not set up, build or
        poll other cases, and polls the measured case twice a second.
    :param view: form of the output; by default as ReFrame prints it.
    """
    place.reports.mkdir(parents=True, exist_ok=True)
    announced = place.reports / "announced-cases.jsonl"
    announced.unlink(missing_ok=True)
    is_dry, is_shown = "--dry-run" in arguments, known is not None
    serial = is_shown and all(case.scheduler == "local" for case in known or ())
    # A policy in the arguments comes later and overrides this one.
    actions = [] if is_dry else ["-r", "--exec-policy=serial"] if serial else ["-r"]
    rates = DRY if is_dry else QUIET if serial else {}
    progress = Progress(known or (), place.stage, place.log, announced, view or View())
    with place.log.open("ab") as log:
        process = subprocess.Popen(
            [program(), *actions, *arguments],
            cwd=place.directory,
            # A session around this one may have set the variable.
            env={**rates, **environment(place), ANNOUNCED: str(announced) if is_shown else ""},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # The terminal's Ctrl-C reaches only this process, which passes it on to ReFrame once.
            start_new_session=True,
        )
        status = relay.wait(process, progress.show if is_shown else _nothing)
    if is_shown:
        progress.show(has_ended=True)
    announced.unlink(missing_ok=True)
    return status


def _logged(log: Path, pattern: str) -> str:
    """Return the last match of a pattern in ReFrame's output; empty without one."""
    text = COLOR.sub("", log.read_text(encoding="utf-8", errors="replace")) if log.exists() else ""
    return next((match[1].strip() for match in reversed([*re.finditer(pattern, text, re.MULTILINE)])), "")


def last_error(log: Path) -> str:
    """Return the last error of ReFrame or this library; empty without one."""
    return _logged(log, ERROR)


def not_stored(log: Path) -> str:
    """Return ReFrame's warning that it could not write the last results into its database; else empty."""
    return _logged(log, NOT_STORED)


def left_out(log: Path) -> list[str]:
    """Return a problem if ReFrame left out a check that does not load. ReFrame only prints a warning."""
    reason = _logged(log, LEFT_OUT)
    return [f"a check file does not load: {reason}"] if reason else []
