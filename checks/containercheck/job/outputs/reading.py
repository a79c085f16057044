"""Read metrics and answers from the output of a run: in the job, and again when it is judged.

Standard library only, Python 3.6 or newer. A fact is a :class:`containercheck.application.declare.Metric` or
``Answer``, or in the job an object with the same attributes.
"""

import functools
import math
import operator
import re
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

from containercheck.job import texts

#: Functions that reduce the matches of a pattern to one value.
REDUCE: Dict[str, Callable[[List[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "median": statistics.median,
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
    "sum": math.fsum,
    "product": lambda values: functools.reduce(operator.mul, values, 1.0),
    "span": lambda values: values[-1] - values[0],
}

#: Pattern of long times as programs print them: 1h 2m, 3m 4.05s, 5.6s.
DURATION = re.compile(r"\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+(?:\.\d*)?)s)?\s*")

#: Units of times, which are never negative.
TIMES = ("s", "ms", "us", "ns", "min", "h")


class UnreadableError(Exception):
    """A metric or an answer that cannot be read from a run's output; the message names it and the file."""


class Output:
    """The output of a run, of which each file is read once, however many facts are in it.

    :param directory: of the output.
    """

    def __init__(self, directory: Path) -> None:
        """Keep the directory; a file is read when a fact in it is needed."""
        self.directory = directory
        self._texts: Dict[str, str] = {}

    @classmethod
    def of(cls, place: "Union[Path, Output]") -> "Output":
        """Return the output in a directory; an output is returned as it is."""
        return place if isinstance(place, Output) else cls(place)

    def text(self, file: str, name: str) -> str:
        """Return the text of a file.

        :param name: of the fact that is looked for, for the message.
        :raises UnreadableError: the file is missing, or longer than what is read.
        """
        if file not in self._texts:
            try:
                self._texts[file] = texts.read(self.directory / file)
            except OSError as error:
                raise UnreadableError(f"{name}: cannot read {self.directory / file}: {error.strerror}") from None
            except texts.TooLongError as error:
                raise UnreadableError(f"{name}: {error}, so that it is not looked for there") from None
        return self._texts[file]


def read_metric(metric: Any, output: Union[Path, Output]) -> Optional[float]:
    """Return the metric of a run, or None where it does not apply.

    :param output: the run's output, or its directory.
    :raises UnreadableError: the metric is missing, not a number, not finite, a negative time, or (for a ratio) not
        positive.
    """
    output = Output.of(output)
    text, place = output.text(metric.file, metric.name), output.directory / metric.file
    if metric.not_applicable_if and re.search(metric.not_applicable_if, text, re.MULTILINE):
        return None
    value = metric.factor * _number(text, metric.pattern, metric.reduce, f"metric {metric.name}", place)
    if metric.unit in TIMES and value < 0:
        raise UnreadableError(f"metric {metric.name} is {value:g} {metric.unit} in {place}: the clock was set back")
    if metric.compare == "ratio" and value <= 0:
        raise UnreadableError(f"metric {metric.name} is {value:g} in {place}: it must be positive")
    return value


def read_answer(answer: Any, output: Union[Path, Output]) -> Union[str, float]:
    """Return the answer of a run: a text where the fact states words or an equal text, else a number.

    :param output: the run's output, or its directory.
    :raises UnreadableError: the answer is missing, or not a finite number where it must be one.
    """
    output = Output.of(output)
    text, place = output.text(answer.file, answer.name), output.directory / answer.file
    if answer.equals is None and not answer.words:
        return _number(text, answer.pattern, answer.reduce or "last", f"answer {answer.name}", place)
    matches = re.findall(answer.pattern, text, re.MULTILINE)
    if not matches:
        raise UnreadableError(f"answer {answer.name} not found in {place} (pattern: {answer.pattern})")
    if answer.words:
        return " ".join(matches)
    # Texts have no mean: if one of them is wrong, that one is the answer.
    return next((match for match in matches if match != answer.equals), answer.equals)


def problem(answer: Any, value: Union[str, float]) -> Optional[str]:
    """Return what is wrong with a run's answer in itself, or None."""
    if answer.equals is not None and value != answer.equals:
        return f"{answer.name} is {value!r}, must be {answer.equals!r}"
    if answer.at_most is not None and not value <= answer.at_most:
        return f"{answer.name} is {value:g}, must be at most {answer.at_most:g}"
    return None


def disagreement(answer: Any, baseline: Union[str, float], subject: Union[str, float], label: str) -> Optional[str]:
    """Return how far the answers of subject and baseline differ, or None where they agree.

    :param label: of the baseline, for the message.
    """
    compared = answer.rtol is not None or answer.atol is not None or (answer.equals is None and answer.at_most is None)
    if not compared or baseline == subject:
        return None
    differ = f"{answer.name} is {subject!r}, {label} {baseline!r}"
    if answer.words or isinstance(baseline, str) or isinstance(subject, str):
        return differ
    allowed = (answer.atol or 0.0) + (answer.rtol or 0.0) * abs(baseline)
    difference = abs(subject - baseline)
    if difference <= allowed:
        return None
    return f"{differ} (differs by {difference:g}, accepted {allowed:g})"


def _number(text: str, pattern: str, reduce: str, what: str, place: Path) -> float:
    matches = re.findall(pattern, text, re.MULTILINE)
    if not matches:
        raise UnreadableError(f"{what} not found in {place} (pattern: {pattern})")
    try:
        values = [math.fsum(map(as_number, [match] if isinstance(match, str) else match)) for match in matches]
    except ValueError as error:
        raise UnreadableError(f"{what} in {place}: {error}") from None
    try:
        value = REDUCE[reduce](values)
    except OverflowError:
        value = math.inf
    if not all(map(math.isfinite, [*values, value])):
        printed = ", ".join(match if isinstance(match, str) else " + ".join(match) for match in matches)
        raise UnreadableError(f"{what} in {place} is not finite: {printed}")
    return value


def as_number(text: str) -> float:
    """Return a number, or the seconds of a time (3m 4.05s).

    :raises ValueError: the text is neither.
    """
    duration = DURATION.fullmatch(text)
    if duration and any(duration.groups()):
        hours, minutes, seconds = (float(part or 0) for part in duration.groups())
        return 3600 * hours + 60 * minutes + seconds
    return float(text)
