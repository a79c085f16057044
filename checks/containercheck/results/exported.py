"""Export results: a line of JSON for each metric, in the format that ``ci/docs/result.schema.json`` describes.

The version of the format is the version of the rows (results/row.py). It changes if the meaning of a field changes, and
not for a new field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from containercheck.job.explain import explanation
from containercheck.results import selections
from containercheck.results.cases import Case, Key, ReportError
from containercheck.results.row import Row

#: Fields of a line that a case has under the same name.
_OF_CASE = ("application", "axes", "partition", "variant", "nodes", "result", "reason", "when")


@dataclass(frozen=True)
class Place:
    """The fields of a line before the fields of its row. A case without measurements has no row.

    :ivar system, partition, environ: system, partition and environment of the run, in ReFrame's names.
    :ivar host: name of the first node; empty if the job left no record.
    :ivar application: name of the check.
    :ivar variant: ``bare``, ``integrated`` or ``generic``.
    :ivar nodes: number of nodes.
    :ivar axes: values of the check's other parameters, by name.
    :ivar result: ReFrame's result of the last run: ``pass``, ``fail``, ``skip`` ...
    :ivar reason: reason of a failure or skip; empty for none.
    :ivar cause: explanation of the failure, with its proof if there is one; empty for none.
    :ivar when: seconds of the epoch at which the job was complete; 0 without a job.
    """

    system: str
    partition: str
    environ: str
    host: str
    application: str
    variant: str
    nodes: int
    axes: dict[str, str]
    result: str
    reason: str
    cause: str
    when: float


def lines(cases: Iterable[Case]) -> Iterator[dict[str, Any]]:
    """Yield a line for each metric of each case, and one for a case without metrics."""
    for case in cases:
        place = asdict(_place(case))
        rows: Iterable[Row | None] = case.rows or (None,)
        for row in rows:
            yield {**place, **(row.to_json() if row else {})}


def read(path: Path) -> list[Case]:
    """Return the cases of exported lines, with the rows of all their lines.

    :raises ReportError: the file cannot be read, or a line is not of this format: see :meth:`Row.from_json`.
    """
    try:
        return _read(path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise ReportError(f"cannot read the exported lines {path}: {error}") from None


def _read(lines: Iterable[str]) -> list[Case]:
    cases: dict[Key, Case] = {}
    for line in map(json.loads, lines):
        if not isinstance(line, dict) or not {*_OF_CASE, "system", "environ"} <= line.keys():
            raise ValueError(f"a line is not a result of containercheck: {str(line)[:80]}")
        identity = json.dumps([line[name] for name in ("application", "variant", "nodes", "axes")])
        key = (line["system"], line["partition"], line["environ"], identity)
        case = cases.get(key) or Case(key=key, label=line["application"], **{name: line[name] for name in _OF_CASE})
        rows = (*case.rows, Row.from_json(line)) if "metric" in line else case.rows
        cases[key] = replace(case, rows=rows)
    return [*cases.values()]


def cause_of(case: Case) -> str:
    """Return the explanation of a case's failure in one line; empty for none."""
    run = selections.failure(case)
    return next(iter(explanation.lines(run.causes)), "") if run else ""


def _place(case: Case) -> Place:
    system, _, environ, _ = case.key
    failed = selections.failure(case)
    shared = {name: getattr(case, name) for name in _OF_CASE}
    shared["reason"] = failed.fail_reason if failed else case.reason
    return Place(system=system, environ=environ, host=case.provenance.get("host", ""), cause=cause_of(case), **shared)
