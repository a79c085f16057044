"""Write the cases of a session as JUnit XML for GitLab, Jenkins and others; ReFrame's JUnit XML leaves out skips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.formatting import write_file

#: Characters that XML 1.0 cannot hold, escaped or not.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, cases: Sequence[Case], alarms: Iterable[str], problems: Iterable[str]) -> None:
    """Write the XML file in one step.

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
    open_lines = [f"{row.metric}: {selections.describe(row)}" for row in selections.open_rows(case)]
    tally = selections.tally(run or case)
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
