"""Builds what is to run before anything is measured: images, environments and programs, side by side.

A dry run of ReFrame writes the build script of each case. Each different one is run here once, on all cores; what it
makes lies in a cache, where ReFrame's own build step finds it when the case is run. Only for cases whose jobs run on
this machine: jobs in a queue run elsewhere, and need not wait until the last image is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.results import selections
from containercheck.results.cases import Case, Key, collect, key
from containercheck.results.formatting import names, say
from containercheck.session import progress, reframe_process
from containercheck.session.reframe_process import Relay, Workplace

#: What ReFrame calls the script, and how its build step notes that it succeeded, and that the software does not exist
#: for this machine (containercheck.node.contract has them for the build step itself).
SCRIPT, STATUS, SUCCEEDED, UNSUPPORTED = "rfm_build.sh", "build.status", "0", "3"
#: The command of a build step that has nothing to do (containercheck.software has it).
NOTHING = "\n(true) && "
#: Files for what a script prints.
OUT, ERR = "rfm_build.out", "rfm_build.err"
#: Most scripts that run at the same time, as in ReFrame.
MOST = 8
#: Seconds between two looks at what has ended, and from which on a build has its line.
LOOK, WORTH_TELLING = 0.1, 10.0
#: Cases that are named with a build.
NAMED = 2


@dataclass(frozen=True)
class Build:
    """A build script, with the cases that need what it makes.

    :ivar directory: the stage directory of one of them, where it is run.
    """

    directory: Path
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        """Return what it is called, by its cases."""
        more = f" and {len(self.cases) - NAMED} more" if len(self.cases) > NAMED else ""
        return names(self.cases[:NAMED]) + more

    @property
    def problem(self) -> str:
        """Return why it failed; empty where it did not, or where its cases are going to be skipped."""
        with contextlib.suppress(OSError):
            if (self.directory / STATUS).read_text().strip() in (SUCCEEDED, UNSUPPORTED):
                return ""
        with contextlib.suppress(OSError):
            said = (self.directory / ERR).read_text(errors="replace").strip()
            return said.splitlines()[0].removeprefix("error: ") if said else "it printed nothing"
        return "it printed nothing"


def builds(report: dict[str, Any], wanted: Iterable[Key]) -> list[Build]:
    """Return the builds that cases of a dry run need on this machine.

    :param report: of the dry run, whose stage directories are still there.
    :param wanted: which of its cases are run.
    """
    wanted = set(wanted)
    scripts: dict[str, list[tuple[Path, Case]]] = {}
    known = {case.key: case for case in selections.ran(collect([report])) if case.key in wanted}
    for raw in (raw for run in report["runs"] for raw in run["testcases"]):
        case, directory = known.get(key(raw)), raw.get("stagedir") or ""
        script = Path(directory, SCRIPT)
        if case and case.scheduler == "local" and raw.get("build_locally", True) and script.is_file():
            text = script.read_text(errors="replace").replace(directory, "")
            if NOTHING not in text:
                scripts.setdefault(text, []).append((Path(directory), case))
    return [Build(found[0][0], tuple(case for _, case in found)) for found in scripts.values()]


class Preparation:
    """Some builds as they go.

    :ivar done: how many have ended.
    """

    def __init__(self, wanted: Sequence[Build], place: Workplace) -> None:
        """Nothing runs yet."""
        self._wanted, self._place = wanted, place
        self._running: dict[subprocess.Popen[bytes], tuple[Build, float]] = {}
        self.done = 0

    def run(self, relay: Relay) -> float:
        """Run them, some at a time, until all have ended or a signal came.

        :returns: the seconds that it took.
        """
        # Twice as many as cores: images wait for the one that they are built upon.
        began, todo, most = time.monotonic(), list(self._wanted), min(MOST, 2 * (os.cpu_count() or 1))
        cases = sum(len(one.cases) for one in self._wanted)
        say(f"preparing {cases} case(s): what they need is built, or found in a cache, before anything is measured")
        screen = progress.Screen()
        with progress.shown(self, screen):
            while (todo or self._running) and not relay.stopped_by:
                while todo and len(self._running) < most:
                    self._start(todo.pop(0))
                for process in [one for one in self._running if one.poll() is not None]:
                    self._ended(process, screen)
                time.sleep(LOOK)
        if relay.stopped_by:
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            reframe_process.end_children()
        took = time.monotonic() - began
        say(f"{self.done} of {len(self._wanted)} build(s) done in {duration(took)}")
        return took

    def _start(self, build: Build) -> None:
        with (build.directory / OUT).open("wb") as out, (build.directory / ERR).open("wb") as err:
            process = subprocess.Popen(
                ["bash", SCRIPT],
                cwd=build.directory,
                env=reframe_process.environment(self._place),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Whatever it starts is ended with it.
                start_new_session=True,
            )
        self._running[process] = (build, time.monotonic())

    def _ended(self, process: subprocess.Popen[bytes], screen: progress.Screen) -> None:
        build, began = self._running.pop(process)
        self.done += 1
        took = time.monotonic() - began
        if build.problem:
            screen.show(f"run: not built, and tried again in its turn: {build.name}: {build.problem}\n".encode())
        elif took > WORTH_TELLING:
            screen.show(f"run: built in {duration(took)}: {build.name}\n".encode())

    def line(self, within: float) -> str:
        """Return how far it is, with the last line of the build that printed in the last seconds."""
        count = f"{self.done} of {len(self._wanted)} built"
        newest, changed = None, time.time() - within
        for build, _ in list(self._running.values()):
            with contextlib.suppress(OSError):
                when = (build.directory / OUT).stat().st_mtime
                if when > changed:
                    newest, changed = build, when
        said = progress.last_line(newest.directory / OUT) if newest else ""
        return f"{count}; {said}" if said else count


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
