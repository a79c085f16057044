"""Run sessions of ReFrame in which programs are compared with themselves; for noise.py.

A session loads check files that are written for it. Each takes an application's class from checks/ and has both sides
run bare (bare_twice.py), on one node, with the default input. All files of a session lie in a directory of its own
below stage/, on the file system that the checks' own files lie on, and is removed in the end.
"""

from __future__ import annotations

import ast
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.results.row import EMULATED, Row, rows_of
from containercheck.session.reframe_process import Relay

REPOSITORY = Path(__file__).resolve().parents[2]
CHECKS, OWN = REPOSITORY / "checks", REPOSITORY / "ci" / "benchmarks"

#: Check file. The path is not set by PYTHONPATH, which the job would have too: a check may have the name of the package
#: of its program.
FILE = '''"""{name} against itself."""

import sys

sys.path[:0] = {path!r}

import {module}
import reframe as rfm
from bare_twice import BareTwice
from reframe.core.builtins import parameter


@rfm.simple_test
class {name}(BareTwice, {module}.{name}, custom_prefix={prefix!r}):
    """Both sides run bare."""

    variant = parameter(["bare"], loggable=True)
    num_nodes = parameter([1], loggable=True)
'''


class SessionError(Exception):
    """A session that ReFrame could not run; the message says why."""


class Stopped(Exception):
    """A request to stop (Ctrl-C); the message is the signal's name."""


@contextlib.contextmanager
def workplace(prefix: str) -> Iterator[tuple[Path, Relay]]:
    """Give a directory below stage/ that is removed in the end, and the relay of signals to a session there."""
    (REPOSITORY / "stage").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=REPOSITORY / "stage") as directory, Relay() as relay:
        yield Path(directory), relay


def run_to_end(relay: Relay, command: Sequence[str], **options: Any) -> None:
    """Run a command to its end.

    :param options: for :class:`subprocess.Popen`.
    :raises Stopped: a signal asked to stop.
    """
    # The terminal's Ctrl-C reaches this process only, and goes on to the command from here, once.
    relay.wait(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options))
    if relay.stopped_by:
        raise Stopped(relay.stopped_by)


@dataclass(frozen=True)
class Case:
    """The result of one check in a session.

    :ivar check: its name, with the partition where the session ran on several.
    :ivar rows: a comparison each.
    :ivar noise_facts: see :class:`bare_twice.BareTwice`.
    :ivar skipped: why it was skipped; empty where it was not.
    :ivar broken: what went wrong other than the verdict, such as a hang; empty where nothing did.
    """

    check: str
    rows: Sequence[Row] = ()
    noise_facts: Mapping[str, Any] = field(default_factory=dict)
    skipped: str = ""
    broken: str = ""

    @property
    def rounds(self) -> int:
        """The number of rounds that counted."""
        return max((row.rounds for row in self.rows), default=0)


def applications() -> dict[str, str]:
    """Return the module of each check in checks/, by its name; without those that belong to the full axes as a whole.

    From the text: a check file cannot be imported outside a session of ReFrame.
    """
    modules = {}
    for path in sorted(CHECKS.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any("simple_test" in ast.unparse(use) for use in node.decorator_list):
                facts = [ast.unparse(statement) for statement in node.body]
                if "full_only = True" not in facts:
                    modules[node.name] = path.stem
    return modules


def chosen(names: Sequence[str], default: Iterable[str]) -> list[str]:
    """Return the requested checks, or the default ones where none is named.

    :raises SystemExit: there is no check with one of the names.
    """
    unknown = sorted(set(names) - set(applications()))
    if unknown:
        sys.exit(f"error: no check {', '.join(unknown)}: there are {', '.join(applications())}")
    return list(names or default)


def file_of(name: str) -> str:
    """Return the name of the file for a check, which must differ from its module's."""
    return f"itself_{name}.py"


def write_checks(directory: Path, names: Iterable[str]) -> None:
    """Write a check file for each name."""
    directory.mkdir(parents=True, exist_ok=True)
    modules = applications()
    for name in names:
        text = FILE.format(name=name, module=modules[name], path=[str(CHECKS), str(OWN)], prefix=str(CHECKS))
        (directory / file_of(name)).write_text(text)


class Sessions:
    """Sessions with the same check files, one after the other.

    :param directory: of everything that they leave.
    """

    def __init__(self, directory: Path, relay: Relay) -> None:
        """Begin without checks: see :func:`write_checks`."""
        self.checks = directory / "checks"
        self._directory, self._relay = directory, relay

    @classmethod
    @contextlib.contextmanager
    def begin(cls, names: Iterable[str]) -> Iterator[Sessions]:
        """Write the check files, and remove everything in the end."""
        with workplace("itself-") as (directory, relay):
            sessions = cls(directory, relay)
            write_checks(sessions.checks, names)
            yield sessions

    def command(self, *arguments: str, check: str = "") -> list[str]:
        """Return the command of one session, of all checks or of one."""
        reframe = str(Path(sys.executable).parent / "reframe")
        path = self.checks / file_of(check) if check else self.checks
        words = [reframe, f"--checkpath={path}", f"--prefix={self._directory}", "--exclude-tag=full", "--nocolor"]
        return [*words, *arguments]

    def run(self, *arguments: str, check: str = "") -> list[Case]:
        """Run one session, with more arguments for ReFrame, of all checks or of one, and return its cases.

        :raises SessionError: ReFrame ran nothing.
        :raises Stopped: a signal asked to stop.
        """
        report, log = self._directory / "report.json", self._directory / "log"
        report.unlink(missing_ok=True)
        command = self.command("--run", f"--report-file={report}", *arguments, check=check)
        with log.open("wb") as output:
            options = {"cwd": self._directory, "stdout": output, "stderr": subprocess.STDOUT}
            run_to_end(self._relay, command, **options)
        try:
            cases = read(json.loads(report.read_text()))
        except (OSError, ValueError, KeyError, IndexError):
            cases = []
        if not cases:
            raise SessionError(f"ReFrame ran nothing:\n{log.read_text(errors='replace')[-2000:]}")
        return cases


def read(report: Mapping[str, Any]) -> list[Case]:
    """Return the cases of ReFrame's report of a session."""
    raws = report["runs"][-1]["testcases"]
    several = len({raw["partition"] for raw in raws}) > 1
    return [_case(raw, f" on {raw['partition']}" if several else "") for raw in raws]


def _case(raw: Mapping[str, Any], place: str) -> Case:
    check = raw["display_name"].split()[0] + place
    if raw["result"] == "skip":
        return Case(check, skipped=raw.get("skip_reason") or "no reason given")
    rows = tuple(rows_of(raw))
    if any(row.verdict == EMULATED for row in rows):
        return Case(check, skipped="the processors are emulated, and nothing is judged there")
    # A case that fails without a metric that fails has another reason than the verdict.
    failed = any(row.verdict == "fail" for row in rows)
    broken = "" if raw["result"] == "pass" or failed else _reason(raw)
    return Case(check, rows, raw.get("noise_facts") or {}, broken=broken)


def _reason(raw: Mapping[str, Any]) -> str:
    text = " ".join((raw.get("fail_reason") or "").split())
    return f"{raw.get('fail_phase') or raw['result']}: {text or 'no reason given'}"
