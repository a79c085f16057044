"""Read the cases of ReFrame's JSON reports; the last run of each case counts."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck import reframe_internals
from containercheck.job import contract
from containercheck.results.formatting import CommandError, first, typed, write_file
from containercheck.results.row import Row, frozen, require_readable, rows_of

#: Parameters of every check: they have their own fields here.
COMMON = ("variant", "num_nodes")
#: Parameter that cases of the partition's default runtime do not show: they keep their series when a site adds another.
DEFAULT_PLATFORM = (contract.PLATFORM, contract.FIRST_PLATFORM)
#: Beginning of the names of the sides among the compared things of a case (results/earlier_sessions.py).
SIDE = "side "
#: Results without information about the case: an earlier run counts.
SAYS_NOTHING = ("skip", "abort", "fail_deps")
#: Message if there is no report, or no case in it.
NO_CHECK_RAN = "no check was run: nothing matches the selection (full axes: --full), or no check file loads"
#: Most nodes of a job that a sentence names.
NAMED_NODES = 3

#: Fields of a case by the names of their entries in ReFrame's reports.
_SAME = ("notes", "expected", "scheduler", "provenance", "measured", "nightly_pass", "hashcode", "tags", "reproducer")
_STORED = {
    **{name: name for name in (*_SAME, "compared", "causes", "where_time_went")},
    "phase": "fail_phase",
    "seconds": "application_seconds",
    "building": "time_compile",
    "when": "job_completion_time_unix",
    "performance": "perfvalues",
    "file": "filename",
}

Key = tuple[str, str, str, str]


class ReportError(CommandError):
    """A report cannot be read."""


@dataclass(frozen=True)
class Case:
    """The result of a check on one partition.

    :ivar key: identifies the case; all its runs have the same key.
    :ivar axes: the values of the check's own parameters, by name.
    :ivar label: the application, with the axes that differ among the cases that were read together.
    :ivar result: ReFrame's result: pass, fail, skip, abort, fail_deps, xfail or xpass.
    :ivar phase, error: ReFrame's phase of the failure, and the exception; empty without a failure.
    :ivar reason: why it failed or was skipped.
    :ivar rows: the metrics.
    :ivar notes: remarks about the run.
    :ivar expected: expected time of the job; keys: see ``interface.ApplicationFacts.expected``.
    :ivar seconds: run time of the application, the sum of all rounds; None if it is not known.
    :ivar job_seconds: time for which the job had its nodes; an upper limit if the job left no record.
    :ivar scheduler: ReFrame's name for the scheduler of the partition.
    :ivar building: seconds of its build step.
    :ivar provenance: builds, images and machines, as the job recorded them; empty without a record.
    :ivar ran_on: names of the nodes of its job; empty if the scheduler does not list them.
    :ivar when: seconds of the epoch at which its job was complete; 0 without a job.
    :ivar measured: the metrics of each round, by side.
    :ivar nightly_pass: the pass of ci/nightly that ran it; empty for any other session.
    :ivar name: ReFrame's name of the case, with all its parameters.
    :ivar hashcode: ReFrame's hash of that name, the same on all partitions.
    :ivar tags: tags of the check; ``full`` for the full axes.
    :ivar performance: values that ReFrame logs, by system, partition and name: value, reference, its lower and upper
        bound (fractions, None for none), unit, result.
    :ivar file: file of the check.
    :ivar reproducer: script that repeats one run of a side alone; empty if there is none.
    :ivar compared: the compared things; keys: see ``containercheck.results.earlier_sessions``.
    :ivar options: configuration files (-C) and variables (-S) on the command line of its session.
    :ivar causes: possible causes of failed metrics (job/explain/explanation.py).
    :ivar where_time_went: line about the time of a container that is too slow; empty for none.
    :ivar earlier: the earlier runs of this case, the first one first.
    """

    key: Key
    application: str
    axes: dict[str, str]
    label: str
    partition: str
    variant: str
    nodes: int
    result: str
    phase: str = ""
    error: str = ""
    reason: str = ""
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float | None = None
    expected: Mapping[str, Any] = field(default_factory=dict)
    job_seconds: float = 0.0
    scheduler: str = ""
    building: float = 0.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    ran_on: tuple[str, ...] = ()
    when: float = 0.0
    measured: tuple[Mapping[str, Any], ...] = ()
    nightly_pass: str = ""
    name: str = ""
    hashcode: str = ""
    tags: tuple[str, ...] = ()
    performance: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    file: str = ""
    reproducer: str = ""
    compared: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    causes: tuple[Mapping[str, Any], ...] = ()
    where_time_went: str = ""
    earlier: tuple[Case, ...] = ()

    @property
    def place(self) -> str:
        """The full name of its partition, with the system if that is known."""
        return f"{self.key[0]}:{self.partition}" if self.key[0] else self.partition

    @property
    def fail_reason(self) -> str:
        """The reason of the failure; ReFrame's result if there is none."""
        return self.reason or self.result

    @property
    def skip_reason(self) -> str:
        """The reason of the skip, in words even if ReFrame has none."""
        return self.reason or "ReFrame skipped it"

    @property
    def identity(self) -> tuple[Any, ...]:
        """The identity of a case in all nights: ReFrame's numbers change when a parameter gets another value.

        It consists of system, partition, environment, application, variant, nodes, and the axes by name.
        """
        return self.identity_as(self.variant)

    def identity_as(self, variant: str) -> tuple[Any, ...]:
        """Return the identity of this case in another variant."""
        system, _, environ, _ = self.key
        # A later version of a check may declare its axes in another order.
        axes = tuple(sorted(self.axes.items()))
        return system, self.partition, environ, self.application, variant, self.nodes, axes


def names(cases: Iterable[Case], most: int | None = None) -> str:
    """Return the names of cases in one line.

    :param most: number of cases to name; the others are counted. By default all are named.
    """
    cases = list(cases)
    if most is not None and len(cases) > most:
        return f"{names(cases[:most])}; and {len(cases) - most} more"
    return "; ".join(f"{case.label} {case.variant}, {case.nodes} node(s)" for case in cases)


def on_nodes(bad: Iterable[Case], good: Iterable[Case]) -> str:
    """Return the nodes that show a defect, and other nodes that do not; empty if all runs were on the same nodes.

    :param bad: runs that show it, the first one first.
    :param good: runs that do not.
    """
    seen = list(dict.fromkeys(run.ran_on for run in bad if run.ran_on))
    if len(seen) != 1:
        return " and ".join(f"on {first(nodes, NAMED_NODES)}" for nodes in seen)
    others = [run.ran_on for run in good if run.ran_on and not {*run.ran_on} & {*seen[0]}]
    if not others:
        return ""
    node = first(seen[0], NAMED_NODES)
    return f"only on {node}; not on {first(others[0], NAMED_NODES)}: look at {node} ({typed('nodes')})"


def short_name(case: Case) -> str:
    """Return the name of a case for a line about this case only. One node is not shown."""
    return f"{case.label} {case.variant}" + (f", {case.nodes} nodes" if case.nodes > 1 else "")


def load(path: Path) -> dict[str, Any]:
    """Read a report that ReFrame wrote.

    :raises ReportError: it is not a report, no check was run, or another version of this library wrote its results.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(run["testcases"], list) for run in report["runs"]):
            raise ValueError("it has no test cases")
        for raw in (raw for run in report["runs"] for raw in run["testcases"]):
            require_readable(raw.get("results") or ())
    except FileNotFoundError:
        raise ReportError(NO_CHECK_RAN) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"cannot read ReFrame's report {path}: {error}") from error
    return report


def save(path: Path, report: dict[str, Any]) -> None:
    """Write a report in one step: readers never see half of it.

    :raises OSError: no space is left, or no permission; an older report is not changed.
    """
    write_file(path, json.dumps(report))


def key(raw: dict[str, Any]) -> Key:
    """Return the key of a case in a report: all its runs have the same key."""
    return raw.get("system", ""), raw["partition"], raw["environ"], raw["unique_name"]


def collect(reports: Iterable[dict[str, Any]]) -> list[Case]:
    """Return the last run of each case in these reports, with its earlier runs."""
    runs: dict[Key, list[Case]] = {}
    for report in reports:
        options = _options((report.get("session_info") or {}).get("cmdline") or "")
        for raw in (raw for run in report["runs"] for raw in run["testcases"]):
            # Fixtures count only if they failed.
            if not raw.get("fixture") or raw["result"] != "pass":
                runs.setdefault(key(raw), []).append(_case(raw, options))
    return _labelled([_last(attempts) for attempts in runs.values()])


def merged(report: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the runs of a later one.

    :param report: empty for none yet.
    """
    runs = [*report.get("runs", ()), *later["runs"]]
    return {**(report or later), "runs": [{**run, "run_index": number} for number, run in enumerate(runs)]}


def _options(command_line: str) -> tuple[str, ...]:
    """Return the configuration files and variables on a command line of ReFrame, but no earlier report."""
    try:
        given = reframe_internals.options_of(shlex.split(command_line)[1:])
    except ValueError:
        return ()
    variables = [text for text in given.setvar if not text.startswith("earlier=")]
    pairs = [*(("-C", name) for name in given.config_file), *(("-S", text) for text in variables)]
    return tuple(word for pair in pairs for word in pair)


def _case(raw: dict[str, Any], options: tuple[str, ...]) -> Case:
    # Options such as --repeat add words to the name of the application.
    application, *parameters = (raw.get("display_name") or raw["name"]).split(" %")
    pairs = (text.partition("=") for text in parameters)
    reason = raw.get("skip_reason") if raw["result"] == "skip" else raw.get("fail_reason")
    stored = {name: frozen(raw[entry]) for name, entry in _STORED.items() if raw.get(entry) is not None}
    return Case(
        key=key(raw),
        application=application.split()[0],
        axes={name: value for name, _, value in pairs if name not in COMMON and (name, value) != DEFAULT_PLATFORM},
        label=application,
        partition=raw["partition"],
        variant=str(raw.get("variant") or ""),
        nodes=int(raw.get("num_nodes") or 1),
        result=raw["result"],
        error=(raw.get("fail_info") or {}).get("exc_type") or "",
        reason=(reason or "").strip(),
        rows=tuple(rows_of(raw)),
        ran_on=_node_names(raw),
        job_seconds=_job_seconds(raw),
        name=raw.get("display_name") or raw["name"],
        options=options,
        **stored,
    )


def _node_names(raw: dict[str, Any]) -> tuple[str, ...]:
    nodes = raw.get("job_nodelist")
    # ReFrame 4.10 asks Slurm for the node "None" if a job ends before it is seen.
    return tuple(node for node in nodes if node != "None") if isinstance(nodes, list) else ()


def _job_seconds(raw: dict[str, Any]) -> float:
    # ReFrame's run time begins at the submission and includes the wait in the queue.
    most = (raw.get("expected") or {}).get("at_most") or math.inf
    return raw.get("job_seconds") or min(raw.get("time_run") or 0.0, most)


def _last(attempts: Sequence[Case]) -> Case:
    telling = [case for case in attempts if case.result not in SAYS_NOTHING] or list(attempts)
    return replace(telling[-1], earlier=tuple(telling[:-1]))


def _labelled(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with labels. Skipped cases do not count for the labels, as they are not in the tables."""
    values: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        if case.result != "skip":
            for name, value in case.axes.items():
                values.setdefault((case.application, name), set()).add(value)

    def label(case: Case) -> str:
        differing = [
            f"{name}={value}"
            for name, value in case.axes.items()
            if name == contract.PLATFORM or len(values.get((case.application, name), ())) > 1
        ]
        return " ".join([case.application, *differing])

    return [replace(case, label=label(case)) for case in cases]
