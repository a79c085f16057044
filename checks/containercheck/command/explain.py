"""Print what can explain the cases of the last session that failed, or what differs between two sessions."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from containercheck.command.parsers import parsed
from containercheck.command.report import last_report
from containercheck.explain import between, explanation
from containercheck.explain.experiments import Experiment
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.formatting import names, speak_as

_INDENT = "  "
#: Parts of a provenance that say what a side ran, beside what it saw.
_RAN = ("machine", "runtimes", "image_sha256", "image_release", "mpi", "builds", "bound", "started")
#: All that is compared of two cases: what their sides ran, saw and used.
_COMPARED = (*_RAN, between.SEES, between.USES)


def main(argv: Sequence[str], place: Any) -> int:
    """Print the explanations, and return the exit status: 1 where there is nothing to explain or to compare."""
    speak_as("explain")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options, _, parser = parsed("explain", argv)
    try:
        if options.between:
            lines = compared(*(collect([load(path)]) for path in options.between))
        else:
            if not options.case:
                parser.error("name a case, or a part of its name; or two reports with --between")
            lines = explained(collect([load(last_report(place))]), options.case)
    except ReportError as error:
        print(f"explain: error: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines), flush=True)
    return 0


def explained(cases: Sequence[Case], wanted: str) -> list[str]:
    """Return all that is known of the causes of the cases with a name.

    :param wanted: a part of the name of a case, whatever its letters' case is.
    :raises ReportError: no case has it, or nothing is known.
    """
    chosen = [case for case in cases if wanted.lower() in f"{names([case])} {case.name}".lower()]
    if not chosen:
        raise ReportError(f"no case of the last session has {wanted!r} in its name: {names(list(cases))}")
    lines = []
    for case in chosen:
        lines += [f"{names([case])}: {(case.reason or case.result).splitlines()[0]}"]
        if case.where_time_went:
            lines.append(_INDENT + case.where_time_went)
        causes = [line for cause in case.causes for line in _cause(cause)]
        lines += [_INDENT + line for line in causes] or [f"{_INDENT}nothing that is known to cost time differs"]
    return lines


def _cause(cause: Mapping[str, Any]) -> list[str]:
    kinds = ", ".join(cause.get("kinds") or ())
    lines = [cause["sentence"], f"{_INDENT}can slow: {kinds}", f"{_INDENT}do: {cause['remedy']} ({cause['source']})"]
    if not cause.get("experiment"):
        return [*lines, f"{_INDENT}no experiment can take it away here"]
    label = Experiment(**cause["experiment"]).label
    result = cause.get("result")
    if not result:
        return [*lines, f"{_INDENT}not tried: {label}"]
    if result["failed"]:
        return [*lines, f"{_INDENT}tried in vain, {label}: {result['failed']}"]
    return [*lines, f"{_INDENT}tried: {label}: {explanation.outcome(cause)}"]


def compared(old: Sequence[Case], new: Sequence[Case]) -> list[str]:
    """Return what differs between the cases that two reports have in common.

    :raises ReportError: they have none in common.
    """
    before = {case.identity: case for case in old if case.provenance}
    pairs = [(before[case.identity], case) for case in new if case.provenance and case.identity in before]
    if not pairs:
        raise ReportError("the two reports have no case in common that was run")
    by_lines: dict[tuple[str, ...], list[Case]] = {}
    for first, second in pairs:
        facts = [{key: case.provenance.get(key) or {} for key in _COMPARED} for case in (first, second)]
        by_lines.setdefault(tuple(between.differences(*facts)), []).append(second)
    printed = []
    for lines, cases in by_lines.items():
        printed.append(f"{names(cases)}:")
        printed += [_INDENT + line for line in lines or ("nothing that is recorded differs",)]
    return printed
