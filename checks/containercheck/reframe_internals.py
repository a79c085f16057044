"""Use the parts of ReFrame 4.10 outside its documented interface.

No other module uses private attributes of ReFrame. A session shows each case when it ends, but ReFrame writes its
report after the last one. So :func:`listen` extends ``RegressionTask.log_result``: ReFrame calls it at the end of each
case that ran, with any result. A test compares these names with the installed ReFrame
(ci/tests/unit/test_reframe_internals.py).
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reframe.core.systems import SystemPartition
    from reframe.frontend.executors import RegressionTask

#: Options of ReFrame that this library reads, with their letters.
_OPTIONS = (
    ("--config-file", "-C"),
    ("--job-option", "-J"),
    ("--name", "-n"),
    ("--setvar", "-S"),
    ("--tag", "-t"),
    ("--system",),
)
#: Letters of ReFrame's options without a value, which may be combined with another one in a word.
_LETTERS = "RVhlqrv"
#: Variable of ReFrame's environment that names the file in which cases are announced to their session when they end.
ANNOUNCED = "CONTAINERCHECK_ANNOUNCED"


class _Ended:
    """Hold the statistics of ReFrame for a single case, from which it makes the case's entry in the report."""

    def __init__(self, task: RegressionTask) -> None:
        self._task = task

    def runs(self) -> list[tuple[int, list[RegressionTask]]]:
        return [(0, [self._task])]


def entry_of(task: RegressionTask) -> dict[str, Any]:
    """Return the entry of a case as it will be in the report."""
    from reframe.frontend.reporting import RunReport

    report = RunReport()
    report.update_run_stats(_Ended(task))
    entry: dict[str, Any] = report["runs"][0]["testcases"][0]
    return entry


@functools.cache
def listen(shown: Callable[[Mapping[str, Any]], str]) -> None:
    """Let ReFrame show the cases that end from now on, or announce them if a session names a file for that.

    :param shown: returns the text for a case of a report.
    """
    from reframe.core.logging import getlogger
    from reframe.frontend.executors import RegressionTask
    from reframe.utility import jsonext

    log_result = RegressionTask.log_result

    @functools.wraps(log_result)
    def announced(task: RegressionTask) -> None:
        # An error here costs no other case.
        try:
            path = os.environ.get(ANNOUNCED)
            if path:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(f"{jsonext.dumps(entry_of(task))}\n")
            elif hasattr(task.check, "measured") and not task.check.is_dry_run():
                _register_end()
                getlogger().info(shown(jsonext.loads(jsonext.dumps(entry_of(task)))).rstrip())
        except Exception as error:
            getlogger().warning(f"{task.check.display_name} is not shown: {error!r}")
        log_result(task)

    RegressionTask.log_result = announced


@functools.cache
def _register_end() -> None:
    atexit.register(_print_end)


def _print_end() -> None:
    """Print the command that shows the results."""
    from reframe.core.logging import getlogger
    from reframe.core.runtime import runtime
    from reframe.utility import osext

    path = Path(osext.expandvars(runtime().get_option("general/0/report_file")))
    # ReFrame numbers its usual reports, and links the last one.
    last = path.with_name("latest.json") if "{sessionid}" in path.name else path
    getlogger().info(f"Table of all measurements: containercheck report {last}")


def options_of(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line of ReFrame that this library reads; each is a list of its values."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flags in _OPTIONS:
        # An option without its value is for ReFrame to report.
        parser.add_argument(*flags, action="extend", nargs="*", default=[])
    for letter in _LETTERS:
        parser.add_argument(f"-{letter}", action="store_true")
    return parser.parse_known_args(words)[0]


def set_up_build_job(check: Any) -> None:
    """Make the build job anew: ReFrame sets it up before it is known whether it runs on a node."""
    check._setup_build_job(sched_options=check.job.cli_options)


def run_one_at_a_time(partition: SystemPartition) -> None:
    """Make ReFrame run one case at a time on a partition, which it asks when it first runs a case there."""
    partition._max_jobs = 1
