"""What was not run, by the reason: several applications may lack the same thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from containercheck.results.cases import Case

#: Stand for the application, and for system and partition, in a reason that several share.
NAME, PARTITION = "NAME", "PARTITION"


@dataclass(frozen=True)
class Reason:
    """Why some cases were not run.

    :ivar text: the reason, with :data:`NAME` and :data:`PARTITION` where it names one of several.
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
        partitions = len({case.partition for case in self.cases})
        where = f" on {partitions} partitions" if partitions > 1 else ""
        return f"{', '.join(self.applications)} ({len(self.cases)} case(s){where}): {self.text}"


def lost_lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each reason for which cases that were measured before are not measured now.

    :param cases: as ``selections.lost`` returns them.
    """
    return [f"measured before, and not this time: {reason.line}" for reason in by_reason(cases)]


def by_reason(cases: Iterable[Case]) -> list[Reason]:
    """Return why cases were skipped, the reason with most of them first; nothing where none was."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            text = case.skip_reason.replace(case.application, NAME).replace(_place(case), PARTITION)
            groups.setdefault(text, []).append(case)
    reasons = []
    for text, skipped in groups.items():
        names, places = {case.application for case in skipped}, {_place(case) for case in skipped}
        text = text.replace(NAME, names.pop()) if len(names) == 1 else text
        text = text.replace(PARTITION, places.pop()) if len(places) == 1 else text
        reasons.append(Reason(text, tuple(skipped)))
    return sorted(reasons, key=lambda reason: -len(reason.cases))


def _place(case: Case) -> str:
    """Return system and partition of a case, as reasons name them."""
    return f"{case.key[0]}:{case.partition}"
