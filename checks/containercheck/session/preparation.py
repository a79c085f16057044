"""Build images, environments and programs in parallel before anything is measured.

A dry run of ReFrame writes the build script of each case. Each different script is run here once, on all cores; its
products lie in a cache, where ReFrame's own build step finds them when the case is run. This is only for cases whose
jobs run on this machine: jobs in a queue run elsewhere, and need not wait for the last image.
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

#: ReFrame's name of the script, the file with the status of a build step, and its values where it succeeded and where
#: the software does not exist for this machine (containercheck.node.contract has them for the build step itself).
SCRIPT, STATUS, SUCCEEDED, UNSUPPORTED = "rfm_build.sh", "build.status", "0", "3"
#: The command of an empty build step (containercheck.software has it).
NOTHING = "\n(true) && "
#: Files for the output of a script.
OUT, ERR = "rfm_build.out", "rfm_build.err"
#: Most scripts that run at the same time, as in ReFrame.
MOST = 8
#: Seconds between two polls of the scripts, and duration from which on a build is reported in a line.
LOOK, WORTH_TELLING = 0.1, 10.0
#: Cases that are named with a build.
NAMED = 2


@dataclass(frozen=True)
class Build:
    """A build script, with the cases that need its products.

    :ivar directory: stage directory of one of the cases, where the script is run.
    """

    directory: Path
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        """Return a name for the build from its first cases."""
        more = f" and {len(self.cases) - NAMED} more" if len(self.cases) > NAMED else ""
        return names(self.cases[:NAMED]) + more

    @property
    def problem(self) -> str:
        """Return why the build failed; empty where it did not, or where its cases will be skipped."""
        with contextlib.suppress(OSError):
            if (self.directory / STATUS).read_text().strip() in (SUCCEEDED, UNSUPPORTED):
                return ""
        with contextlib.suppress(OSError):
            output = (self.directory / ERR).read_text(errors="replace").strip()
            return output.splitlines()[0].removeprefix("error: ") if output else "it printed nothing"
        return "it printed nothing"


def builds(report: dict[str, Any], wanted: Iterable[Key]) -> list[Build]:
    """Return the builds that cases of a dry run need on this machine.

    :param report: report of the dry run, whose stage directories still exist.
    :param wanted: keys of the cases that are run.
    """
    wanted = set(wanted)
    scripts: dict[str, list[tuple[Path, Case]]] = {}
    cases = {case.key: case for case in selections.ran(collect([report])) if case.key in wanted}
    for raw in (raw for run in report["runs"] for raw in run["testcases"]):
        case, directory = cases.get(key(raw)), raw.get("stagedir") or ""
        script = Path(directory, SCRIPT)
        if case and case.scheduler == "local" and raw.get("build_locally", True) and script.is_file():
            text = script.read_text(errors="replace").replace(directory, "")
            if NOTHING not in text:
                scripts.setdefault(text, []).append((Path(directory), case))
    return [Build(members[0][0], tuple(case for _, case in members)) for members in scripts.values()]


class Preparation:
    """Builds in parallel, with their progress.

    :ivar done: number of builds that have ended.
    """

    def __init__(self, wanted: Sequence[Build], place: Workplace) -> None:
        """Begin without a running build."""
        self._wanted, self._place = wanted, place
        self._running: dict[subprocess.Popen[bytes], tuple[Build, float]] = {}
        self.done = 0

    def run(self, relay: Relay) -> float:
        """Run the builds, several at a time, until all have ended or a signal came.

        :returns: the seconds that it took.
        """
        # Twice as many as cores: images wait for their base image.
        began, todo, most = time.monotonic(), list(self._wanted), min(MOST, 2 * (os.cpu_count() or 1))
        cases = sum(len(build.cases) for build in self._wanted)
        say(f"preparing {cases} case(s): what they need is built, or found in a cache, before anything is measured")
        screen = progress.Screen()
        with progress.shown(self, screen):
            while (todo or self._running) and not relay.stopped_by:
                while todo and len(self._running) < most:
                    self._start(todo.pop(0))
                for process in [process for process in self._running if process.poll() is not None]:
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
                # A process group of its own, which is ended as a whole.
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
        """Return how many builds are done, with the last line of the build that printed in the last seconds."""
        count = f"{self.done} of {len(self._wanted)} built"
        newest, changed = None, time.time() - within
        for build, _ in list(self._running.values()):
            with contextlib.suppress(OSError):
                when = (build.directory / OUT).stat().st_mtime
                if when > changed:
                    newest, changed = build, when
        last_line = progress.last_line(newest.directory / OUT) if newest else ""
        return f"{count}; {last_line}" if last_line else count


def duration(seconds: float) -> str:
    """Return a duration for people, in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
