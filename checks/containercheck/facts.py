"""What a run reports, declared as data: figures of merit and answers."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

#: How the matches of a pattern become one value.
TAKE: dict[str, Callable[[list[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
    "sum": math.fsum,
    "product": math.prod,
    "span": lambda values: values[-1] - values[0],
}

#: How programs print long times: 1h 2m, 3m 4.05s, 5.6s.
DURATION = re.compile(r"\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+(?:\.\d*)?)s)?\s*")

#: What a run printed on its standard output, as the runner saves it.
STDOUT = "out"


class UnreadableError(Exception):
    """A figure or an answer could not be read from a run's output; the message names it and the place."""


@dataclass(frozen=True)
class Figure:
    """A figure of merit: a number that a run reports.

    :param name: one word, without blanks or colons; the name in references and reports.
    :param pattern: regular expression, matched line by line; its group 1 is the number, or a time such as 3m 4.05s.
    :param unit: as the seed gives it.
    :param better: ``higher`` or ``lower``.
    :param take: which match counts where there are several, or what is made of them: a key of :data:`TAKE`.
    :param file: the file that it stands in: one of the check's output files, or standard output.
    :param tolerance: the overhead that is still accepted, in percent of the baseline (of ``unit`` where ``compare``
        is ``difference``). None leaves it to the check.
    :param compare: ``ratio``, or ``difference`` for what the baseline hardly has at all, such as a start-up time.
    :param absent: pattern of a line in which the program itself says that the figure does not apply here.
    """

    name: str
    pattern: str
    unit: str
    better: str = "higher"
    take: str = "last"
    file: str = STDOUT
    tolerance: float | None = None
    compare: str = "ratio"
    absent: str | None = None

    def __post_init__(self) -> None:
        """Refuse what would only be noticed at the end of a run."""
        _check_common(self.name, self.pattern, self.take)
        if self.better not in ("higher", "lower"):
            raise ValueError(f"figure {self.name}: better is {self.better!r}, not 'higher' or 'lower'")
        if self.compare not in ("ratio", "difference"):
            raise ValueError(f"figure {self.name}: compare is {self.compare!r}, not 'ratio' or 'difference'")

    def read(self, directory: Path) -> float | None:
        """Return the figure of the run whose output is in ``directory``, or None where it does not apply.

        :raises UnreadableError: it is not there, not a number, or not finite and (for a ratio) positive.
        """
        text = _text(directory, self.file, self.name)
        if self.absent and re.search(self.absent, text, re.MULTILINE):
            return None
        value = _number(text, self.pattern, self.take, f"figure {self.name}", directory / self.file)
        if self.compare == "ratio" and value <= 0:
            raise UnreadableError(f"figure {self.name} is {value:g} in {directory / self.file}: it must be positive")
        return value


@dataclass(frozen=True)
class Answer:
    """An answer: what a run computes and what must come out the same everywhere.

    Of the conditions that are given, all must hold: ``equals`` and ``at_most`` for each run by itself, ``rtol`` and
    ``atol`` between subject and baseline. Without ``equals`` and ``at_most``, answers must agree exactly by default.

    :param equals: the text that group 1 of the pattern must be.
    :param at_most: the largest accepted number (a scaled residual, say).
    :param rtol: accepted difference between subject and baseline, relative to the baseline.
    :param atol: the same, absolute, in the answer's own unit.
    :param words: the answer is a text, all matches together, and subject and baseline must have the same.
    """

    name: str
    pattern: str
    file: str = STDOUT
    take: str = "last"
    equals: str | None = None
    at_most: float | None = None
    rtol: float | None = None
    atol: float | None = None
    words: bool = False

    def __post_init__(self) -> None:
        """Refuse what would only be noticed at the end of a run."""
        _check_common(self.name, self.pattern, self.take)

    @property
    def compared(self) -> bool:
        """Whether subject and baseline must agree."""
        return self.rtol is not None or self.atol is not None or (self.equals is None and self.at_most is None)

    def read(self, directory: Path) -> str | float:
        """Return the answer of the run whose output is in ``directory``: a text where it is one, or a number.

        :raises UnreadableError: it is not there, or not a finite number where it must be one.
        """
        text = _text(directory, self.file, self.name)
        place = directory / self.file
        if self.equals is not None or self.words:
            matches = re.findall(self.pattern, text, re.MULTILINE)
            if not matches:
                raise UnreadableError(f"answer {self.name} not found in {place} (pattern {self.pattern!r})")
            if self.words:
                return " ".join(matches)
            # A text has no mean: if one of them is wrong, that one is the answer.
            return next((match for match in matches if match != self.equals), self.equals)
        return _number(text, self.pattern, self.take, f"answer {self.name}", place)

    def problem(self, value: str | float) -> str | None:
        """Return what is wrong with one run's answer by itself, or None."""
        if self.equals is not None and value != self.equals:
            return f"{self.name} is {value!r}, must be {self.equals!r}"
        if self.at_most is not None and not value <= self.at_most:
            return f"{self.name} is {value:g}, must be at most {self.at_most:g}"
        return None

    def disagreement(self, baseline: str | float, subject: str | float) -> str | None:
        """Return by how much subject and baseline disagree, or None."""
        if not self.compared or baseline == subject:
            return None
        if self.words:
            return f"{self.name} is {subject!r}, bare {baseline!r}"
        allowed = (self.atol or 0.0) + (self.rtol or 0.0) * abs(float(baseline))
        difference = abs(float(subject) - float(baseline))
        if difference <= allowed:
            return None
        return f"{self.name} is {subject!r}, bare {baseline!r} (differs by {difference:g}, accepted {allowed:g})"


@dataclass(frozen=True)
class Step:
    """One command of an application that is run in several.

    :param name: the phase; the runner prints ``seconds <name> <number>`` for it, which a figure can read.
    :param command: the program with its options, as typed inside the container and bare.
    :param parallel: whether MPI's launcher starts it, on all ranks; otherwise it runs once.
    """

    name: str
    command: str
    parallel: bool = False


def seconds_of(step: str, **facts) -> Figure:
    """Return the figure of merit ``seconds_<step>``: the wall-clock time of one step, in seconds."""
    return Figure(f"seconds_{step}", rf"^seconds {re.escape(step)} (\S+)$", "s", better="lower", **facts)


def by_ratio(figures: list[Figure]) -> list[Figure]:
    """Return the figures compared by ratio, with the check's tolerance: for an input that is long enough for it."""
    return [replace(figure, compare="ratio", tolerance=None) for figure in figures]


def _check_common(name: str, pattern: str, take: str) -> None:
    if not re.fullmatch(r"[\w.+/-]+", name):
        raise ValueError(f"name {name!r}: letters, digits and _ . + / - only")
    if re.compile(pattern).groups != 1:
        raise ValueError(f"{name}: the pattern needs exactly one group, for the value")
    if take not in TAKE:
        raise ValueError(f"{name}: take is {take!r}, not one of {', '.join(TAKE)}")


def _text(directory: Path, file: str, name: str) -> str:
    try:
        return (directory / file).read_text(errors="replace")
    except OSError as error:
        raise UnreadableError(f"{name}: cannot read {directory / file}: {error.strerror}") from None


def _number(text: str, pattern: str, take: str, what: str, place: Path) -> float:
    matches = re.findall(pattern, text, re.MULTILINE)
    if not matches:
        raise UnreadableError(f"{what} not found in {place} (pattern {pattern!r})")
    try:
        values = [_as_number(match) for match in matches]
    except ValueError as error:
        raise UnreadableError(f"{what} in {place}: {error}") from None
    if not all(math.isfinite(value) for value in values):
        raise UnreadableError(f"{what} in {place} is not finite: {', '.join(matches)}")
    return TAKE[take](values)


def _as_number(text: str) -> float:
    """Return a number, or the seconds of a time.

    :raises ValueError: it is neither.
    """
    duration = DURATION.fullmatch(text)
    if duration and any(duration.groups()):
        hours, minutes, seconds = (float(part or 0) for part in duration.groups())
        return 3600 * hours + 60 * minutes + seconds
    return float(text)
