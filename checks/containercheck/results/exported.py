"""Export results: a line of JSON for each metric, in the format of ``ci/docs/result.schema.json``, and JUnit XML.

ReFrame's own JUnit XML leaves out skips. The version of the lines is the version of the rows (results/row.py). It
changes if the meaning of a field changes, and not for a new field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from containercheck.job.explain import explanation
from containercheck.results import selections, states
from containercheck.results.cases import Case, Key, ReportError
from containercheck.results.formatting import write_file
from containercheck.results.row import Row

#: Fields of a line that a case has under the same name.
_OF_CASE = ("application", "axes", "partition", "variant", "nodes", "result", "reason", "when")

#: Characters that XML 1.0 cannot hold, escaped or not.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class CaseFields:
    """The fields of a line before the fields of its row. A case without measurements has no row.

    :ivar system, partition, environ: system, partition and environment of the run, in ReFrame's names.
    :ivar host: name of the first node; empty if the job left no record.
    :ivar application: name of the check.
    :ivar variant: ``bare``, ``integrated`` or ``generic``.
    :ivar nodes: number of nodes.
    :ivar axes: values of the check's other parameters, by name.
    :ivar result: ReFrame's result of the last run: ``pass``, ``fail``, ``skip`` ...
    :ivar reason: reason of a failure or skip; empty for none.
    :ivar cause: explanation of the failure, and the remedy; empty for none.
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


def text_of(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of lines of JSON."""
    return "".join(f"{json.dumps(line)}\n" for line in lines)


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
    """Return the explanation of a case's failure and the remedy, in one line; empty for none."""
    run = selections.failure(case)
    return explanation.summary(run.causes) if run else ""


def _place(case: Case) -> CaseFields:
    system, _, environ, _ = case.key
    failed = selections.failure(case)
    shared = {name: getattr(case, name) for name in _OF_CASE}
    shared["reason"] = failed.fail_reason if failed else case.reason
    return CaseFields(
        system=system, environ=environ, host=case.provenance.get("host", ""), cause=cause_of(case), **shared
    )


def write_junit(path: Path, cases: Sequence[Case], alarms: Iterable[str], problems: Iterable[str]) -> None:
    """Write the cases of a session as JUnit XML for GitLab, Jenkins and others, in one step.

    A check with a result that is not accepted is a failure. A check that could not be measured or run is an error. The
    standard output of a check is the tally of its metrics, ``13 of 14 pass, 1 open``, and a line for each open metric.

    :param alarms: changes for the worse since earlier nights; they are failures, even if no check failed.
    :param problems: other things that could not be measured or run; they are errors.
    """
    suites = ElementTree.Element("testsuites")
    for application in dict.fromkeys(case.application for case in cases):
        of_application = [case for case in cases if case.application == application]
        _suite(suites, application, [_testcase(case) for case in of_application])
    _suite(suites, "history", [_event("change", "failure", text) for text in alarms])
    _suite(suites, "session", [_event("problem", "error", text) for text in problems])
    write_file(path, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True).decode())


def _suite(suites: ElementTree.Element, name: str, testcases: Sequence[ElementTree.Element]) -> None:
    if not testcases:
        return
    counts = {
        word: str(sum(testcase.find(tag) is not None for testcase in testcases))
        for word, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = sum(float(testcase.get("time", 0)) for testcase in testcases)
    suite = ElementTree.SubElement(suites, "testsuite", name=name, tests=str(len(testcases)), time=f"{seconds:.3f}")
    suite.attrib.update(counts)
    suite.extend(testcases)


def _testcase(case: Case) -> ElementTree.Element:
    axes = "".join(f" {name}={value}" for name, value in case.axes.items())
    name = f"{case.variant} {case.nodes} node(s){axes} @{case.place}+{case.key[2]}"
    testcase = ElementTree.Element("testcase", classname=case.application, name=name, time=f"{case.job_seconds:.3f}")
    run = selections.failure(case)
    if run:
        _add_outcome(testcase, "failure" if selections.is_regression(run) else "error", run.fail_reason)
    elif case.result == "skip":
        _add_outcome(testcase, "skipped", case.skip_reason)
    open_lines = [f"{row.metric}: {states.describe(row)}" for row in selections.open_rows(case)]
    tally = states.tally(run or case)
    if tally:
        text = FORBIDDEN.sub("?", "\n".join([tally, *open_lines]))
        ElementTree.SubElement(testcase, "system-out").text = text
    return testcase


def _event(name: str, tag: str, text: str) -> ElementTree.Element:
    testcase = ElementTree.Element("testcase", classname=name, name=FORBIDDEN.sub("?", text))
    _add_outcome(testcase, tag, text)
    return testcase


def _add_outcome(element: ElementTree.Element, tag: str, text: str) -> None:
    text = FORBIDDEN.sub("?", text)
    ElementTree.SubElement(element, tag, message=text.splitlines()[0]).text = text
