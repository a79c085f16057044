"""What was not run, by the reason: several applications may lack the same thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from containercheck.results.cases import Case

#: Stands for the application in a reason that several share.
NAME = "NAME"


@dataclass(frozen=True)
class Reason:
    """Why some cases were not run.

    :ivar text: the reason, with :data:`NAME` where it names one of several applications.
    :ivar cases: which.
    """

    text: str
    cases: tuple[Case, ...]

    @property
    def applications(self) -> list[str]:
        """Return the applications, in order."""
        return list(dict.fromkeys(case.application for case in self.cases))

    @property
    def line(self) -> str:
        """Return it as a line to read."""
        return f"{', '.join(self.applications)} ({len(self.cases)} case(s)): {self.text}"


def lost_lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each reason for which cases that were measured before are not measured now.

    :param cases: as ``coverage.lost`` returns them.
    """
    return [f"measured before, and not this time: {reason.line}" for reason in by_reason(cases)]


def by_reason(cases: Iterable[Case]) -> list[Reason]:
    """Return why cases were skipped, the reason with most of them first; nothing where none was."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            groups.setdefault(case.skip_reason.replace(case.application, NAME), []).append(case)
    reasons = []
    for text, skipped in groups.items():
        names = {case.application for case in skipped}
        reasons.append(Reason(text.replace(NAME, names.pop()) if len(names) == 1 else text, tuple(skipped)))
    return sorted(reasons, key=lambda reason: -len(reason.cases))
