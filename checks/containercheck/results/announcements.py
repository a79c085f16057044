"""Show each case when it has ended, or announce it to the session: ReFrame writes its report after the last one.

This is the one place where the library changes ReFrame (4.10): it adds to ``RegressionTask.log_result``, which ReFrame
calls at the end of each case that was run, whatever its result is.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reframe.core.logging import getlogger
from reframe.core.runtime import runtime
from reframe.frontend.executors import RegressionTask
from reframe.frontend.reporting import RunReport
from reframe.utility import jsonext, osext

from containercheck.results.request import ANNOUNCED


class _Ended:
    """The statistics of ReFrame for a single case, of which it makes the case's entry in the report."""

    def __init__(self, task: RegressionTask) -> None:
        self._task = task

    def runs(self) -> list[tuple[int, list[RegressionTask]]]:
        return [(0, [self._task])]


@functools.cache
def listen(shown: Callable[[Mapping[str, Any]], str]) -> None:
    """Let ReFrame show the cases that end from now on, or announce them where a session names a file for that.

    :param shown: returns what is shown of a case of a report.
    """
    log_result = RegressionTask.log_result

    @functools.wraps(log_result)
    def announced(task: RegressionTask) -> None:
        # A fault of ours costs no other case.
        try:
            path = os.environ.get(ANNOUNCED)
            if path:
                _announce(path, _case_of(task))
            elif hasattr(task.check, "measured") and not task.check.is_dry_run():
                _register_end()
                getlogger().info(shown(jsonext.loads(_case_of(task))).rstrip())
        except Exception as error:
            getlogger().warning(f"{task.check.display_name} is not shown: {error!r}")
        log_result(task)

    RegressionTask.log_result = announced


def _case_of(task: RegressionTask) -> str:
    """Return a case as it will be in the report, in a line of JSON."""
    report = RunReport()
    report.update_run_stats(_Ended(task))
    return str(jsonext.dumps(report["runs"][0]["testcases"][0]))


def _announce(path: str, line: str) -> None:
    """Append a line to the session's file; its loss fails nothing."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError:
        return


@functools.cache
def _register_end() -> None:
    atexit.register(_print_end)


def _print_end() -> None:
    """Print the command that shows what was measured."""
    path = Path(osext.expandvars(runtime().get_option("general/0/report_file")))
    # ReFrame numbers its usual reports, and links the last one.
    last = path.with_name("latest.json") if "{sessionid}" in path.name else path
    getlogger().info(f"All that was measured, as a table: containercheck report {last}")
