"""The cases of a session as JUnit XML, which GitLab, Jenkins and their like read; ReFrame's own leaves out skips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from containercheck.results import atomic_files, open_verdicts, selections
from containercheck.results.cases import Case

#: What XML 1.0 cannot hold, escaped or not.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, cases: Sequence[Case], alarms: Iterable[str], problems: Iterable[str]) -> None:
    """Write it in one step.

    A check whose result is worse than it may be is a failure; one that could not be measured or run is an error; a skip
    is a skip. What the figures of a check came to is its standard output: ``13 of 14 pass, 1 open``, and a line for
    each that is open.

    :param alarms: what is worse than in earlier nights, though no check failed: failures too.
    :param problems: what else could not be measured or run: errors.
    """
    suites = ElementTree.Element("testsuites")
    for application in dict.fromkeys(case.application for case in cases):
        own = [case for case in cases if case.application == application]
        _suite(suites, application, [_testcase(case) for case in own])
    _suite(suites, "history", [_told("change", "failure", text) for text in alarms])
    _suite(suites, "session", [_told("problem", "error", text) for text in problems])
    atomic_files.write(path, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True).decode())


def _suite(suites: ElementTree.Element, name: str, testcases: Sequence[ElementTree.Element]) -> None:
    if not testcases:
        return
    counts = {
        word: str(sum(one.find(tag) is not None for one in testcases))
        for word, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = sum(float(one.get("time", 0)) for one in testcases)
    suite = ElementTree.SubElement(suites, "testsuite", name=name, tests=str(len(testcases)), time=f"{seconds:.3f}")
    suite.attrib.update(counts)
    suite.extend(testcases)


def _testcase(case: Case) -> ElementTree.Element:
    axes = "".join(f" {name}={value}" for name, value in case.axes.items())
    name = f"{case.variant} {case.nodes} node(s){axes} @{case.key[0]}:{case.partition}+{case.key[2]}"
    found = ElementTree.Element("testcase", classname=case.application, name=name, time=f"{case.job_seconds:.3f}")
    run = selections.failure(case)
    if run:
        _said(found, "failure" if selections.is_regression(run) else "error", run.reason or run.result)
    elif case.result == "skip":
        _said(found, "skipped", case.reason or "ReFrame skipped it")
    told = [f"{row.figure}: {open_verdicts.describe(row)}" for row in open_verdicts.open_rows(case)]
    tally = open_verdicts.tally(run or case)
    if tally:
        text = FORBIDDEN.sub("?", "\n".join([tally, *told]))
        ElementTree.SubElement(found, "system-out").text = text
    return found


def _told(name: str, tag: str, text: str) -> ElementTree.Element:
    found = ElementTree.Element("testcase", classname=name, name=FORBIDDEN.sub("?", text))
    _said(found, tag, text)
    return found


def _said(element: ElementTree.Element, tag: str, text: str) -> None:
    text = FORBIDDEN.sub("?", text)
    ElementTree.SubElement(element, tag, message=text.splitlines()[0]).text = text
