"""Explain failed cases of the last session or night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from containercheck.command.parsers import parsed
from containercheck.command.report import last_report
from containercheck.job.explain import explanation
from containercheck.job.explain.causes import Change
from containercheck.report.view import columns_of, line_of
from containercheck.results import selections
from containercheck.results.cases import Case, ReportError, collect, load, names
from containercheck.results.formatting import first_line
from containercheck.session.reframe_process import Workplace

_INDENT = "  "


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the explanations, and return the exit status: 2 if there is nothing to explain."""
    options, _, _ = parsed("explain", argv)
    print("\n".join(explained(collect([load(last_report(place, options.night))]), options.case)), flush=True)
    return 0


def explained(cases: Sequence[Case], wanted: str) -> list[str]:
    """Return the lines about the causes of the cases with a name.

    :param wanted: a part of the name of a case, in capital or small letters.
    :raises ReportError: no case has it.
    """
    chosen = [case for case in cases if wanted.lower() in f"{names([case])} {case.name}".lower()]
    if not chosen:
        raise ReportError(f"no case has {wanted!r} in its name: {names(list(cases))}")
    lines = []
    for case in chosen:
        if case.result == "skip":
            lines.append(f"not run: {names([case])}: {case.skip_reason}")
            continue
        line, run = line_of(case), selections.failure(case)
        lines.append(f"{line.state.shown:5} {columns_of(line)}")
        if run is None:
            lines.append(f"{_INDENT}nothing failed, and so no cause was looked for")
            continue
        lines.append(_INDENT + first_line(run.fail_reason))
        lines += [_INDENT + run.where_time_went] if run.where_time_went else []
        causes = [text for cause in run.causes for text in _cause(cause)]
        lines += [_INDENT + text for text in causes] or [f"{_INDENT}nothing that is known to cost time differs"]
    return lines


def _cause(cause: Mapping[str, Any]) -> list[str]:
    kinds = ", ".join(cause.get("kinds") or ())
    lines = [cause["sentence"], f"{_INDENT}can slow: {kinds}", f"{_INDENT}do: {cause['remedy']} ({cause['source']})"]
    if not cause.get("experiment"):
        return [*lines, f"{_INDENT}no experiment can take it away here"]
    label = Change(**cause["experiment"]).label
    result = cause.get("result")
    if not result:
        return [*lines, f"{_INDENT}not tried: {label}"]
    if result["failed"]:
        return [*lines, f"{_INDENT}tried in vain, {label}: {result['failed']}"]
    return [*lines, f"{_INDENT}tried: {label}: {explanation.outcome(cause)}"]
