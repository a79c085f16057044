"""Read the metrics and answers of a run, or the reason why it is invalid; report the problems of many runs.

A fact is a :class:`containercheck.application.declare.Metric` or ``Answer``, or in the job an object with the same
attributes. A run that hung, failed, lost a rank or cannot be read has no values. Similar problems share a line, with
the number of their runs.

Standard library only, Python 3.6 or newer.
"""

import collections
import functools
import math
import operator
import re
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from containercheck.job import contract, texts
from containercheck.job.outputs import reasons
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reasons import CAUSE, DEATH, ERROR, LIBRARY
from containercheck.job.run_observation import states_in_words

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

#: Pattern of long times in the output of programs: 1h 2m, 3m 4.05s, 5.6s.
DURATION = re.compile(r"\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+(?:\.\d*)?)s)?\s*")

#: Units of times, which are never negative.
TIMES = ("s", "ms", "us", "ns", "min", "h")


class UnreadableError(Exception):
    """Report a metric or an answer that cannot be read from a run's output; the message names it and the file."""


def _text(output: Path, file: str, name: str) -> str:
    """Return the text of a file of a run's output.

    :param name: of the fact, for the message.
    :raises UnreadableError: the file is missing, or too long.
    """
    try:
        return texts.read(output / file)
    except OSError as error:
        raise UnreadableError(f"{name}: cannot read {output / file}: {error.strerror}") from None


def absence(metric: Any, output: Path) -> Optional[str]:
    """Return the line that shows that a metric does not apply, which may be empty; None if it applies.

    :raises UnreadableError: the file is missing, or too long.
    """
    text = _text(output, metric.file, metric.name)
    match = metric.not_applicable_if and re.search(f"(?:{metric.not_applicable_if}).{{0,160}}", text, re.MULTILINE)
    return match[0].strip() if match else None


def read_metric(metric: Any, output: Path) -> Optional[float]:
    """Return the metric of a run, or None if it does not apply.

    :param output: directory of the run's output.
    :raises UnreadableError: the metric is missing, not a number, not finite, a negative time, or (for a ratio) not
        positive.
    """
    return _value(metric, output) if absence(metric, output) is None else None


def _value(metric: Any, output: Path) -> float:
    """Return a metric that applies: see :func:`read_metric`."""
    text, place = _text(output, metric.file, metric.name), output / metric.file
    value = metric.factor * _number(text, metric.pattern, metric.reduce, f"metric {metric.name}", place)
    if metric.unit in TIMES and value < 0:
        raise UnreadableError(f"metric {metric.name} is {value:g} {metric.unit} in {place}: the clock was set back")
    if metric.compare == "ratio" and value <= 0:
        raise UnreadableError(f"metric {metric.name} is {value:g} in {place}: it must be positive")
    return value


def read_answer(answer: Any, output: Path) -> Union[str, float]:
    """Return the answer of a run: a text if the fact declares words or a required text, else a number.

    :param output: directory of the run's output.
    :raises UnreadableError: the answer is missing, or must be a finite number and is not.
    """
    text, place = _text(output, answer.file, answer.name), output / answer.file
    if answer.equals is None and not answer.words:
        return _number(text, answer.pattern, answer.reduce or "last", f"answer {answer.name}", place)
    matches = re.findall(answer.pattern, text, re.MULTILINE)
    if not matches:
        raise UnreadableError(f"answer {answer.name} not found in {place} (pattern: {answer.pattern})")
    if answer.words:
        return " ".join(matches)
    # Texts have no mean: a wrong one is the answer.
    return next((match for match in matches if match != answer.equals), answer.equals)


def problem(answer: Any, value: Union[str, float]) -> Optional[str]:
    """Return the fault of a run's answer by itself, or None."""
    if answer.equals is not None and value != answer.equals:
        return f"{answer.name} is {value!r}, must be {answer.equals!r}"
    if answer.at_most is not None and not value <= answer.at_most:
        return f"{answer.name} is {value:g}, must be at most {answer.at_most:g}"
    return None


def disagreement(answer: Any, baseline: Union[str, float], subject: Union[str, float], label: str) -> Optional[str]:
    """Return the difference between the answers of subject and baseline, or None if they agree.

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
        value = REDUCE[reduce](values)
    except (ValueError, OverflowError) as error:
        raise UnreadableError(f"{what} in {place}: {error}") from None
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


# Runs.

#: Kinds of problems of a run. The second problem of one kind, on one side, ends the check.
HANG, OUTPUT, STATUS, RANKS = "hang", "output", "exit status", "ranks"
UNREADABLE, WRONG, DIFFER = "unreadable", "answer", "answers differ"


class Problem(NamedTuple):
    """Describe why a run is not valid.

    :ivar text: the reason, in one line.
    :ivar output: directory of the run's output; empty if the line names it, or needs none.
    :ivar last_seen: states of its processes at the end, if it hung. Rounds differ in it, so the first stands for all.
    """

    kind: str
    side: str
    round: int
    text: str
    output: str = ""
    last_seen: str = ""


class Values(NamedTuple):
    """Hold the values of a run, by name: metrics that apply, answers, and why metrics of other files do not apply."""

    metrics: Dict[str, float]
    answers: Dict[str, Union[str, float]]
    absent: Dict[str, str]


class RunResult(NamedTuple):
    """Hold the result of a run.

    :ivar values: None if they cannot be read. A wrong answer is a problem, but has a value.
    """

    values: Optional[Values]
    problems: List[Problem]


def read_run(run: Dict[str, Any], facts: Facts, stagedir: Path, side: str) -> RunResult:
    """Return the values of a run, or its problems.

    :param run: of the record.
    :param stagedir: directory with the runs' outputs.
    :param side: name of the side with its metrics and answers.
    """
    output = stagedir / run["output"]
    failure = _failure(run, facts, output, side)
    if failure:
        return RunResult(None, [failure])
    try:
        wrong_ranks = _wrong_ranks(facts, output)
        if wrong_ranks:
            return RunResult(None, [_problem(RANKS, run, wrong_ranks)])
        values = _values(facts, output, side)
    except UnreadableError as error:
        printed_error = reasons.error(*_printed(output), levels=(CAUSE, ERROR, DEATH))
        text = str(error) + (f"; it printed: {printed_error}" if printed_error else "")
        return RunResult(None, [_problem(UNREADABLE, run, text)])
    return RunResult(values, [_problem(WRONG, run, f"wrong answer: {text}") for text in _wrong(facts, values, side)])


def _problem(kind: str, run: Dict[str, Any], text: str, output: Optional[Path] = None) -> Problem:
    place = "" if output is None else str(output)
    return Problem(kind, run["side"], run["round"], texts.sanitized(text), place)


def _failure(run: Dict[str, Any], facts: Facts, output: Path, side: str) -> Optional[Problem]:
    """Return the reason if a run failed, even if it printed values; else None."""
    if run.get("printed_too_much"):
        return _problem(OUTPUT, run, contract.PRINTED_TOO_MUCH, output)
    if run["timed_out"]:
        complete = "; its metrics were complete" if _is_complete(facts, output, side) else ""
        # Lines of level DEATH only report that its processes were killed.
        printed_error = reasons.error(*_printed(output), levels=(CAUSE, ERROR, LIBRARY))
        had_printed = f"; it had printed: {printed_error}" if printed_error else ""
        words = states_in_words((run.get("used") or {}).get("states") or {})
        text = "hangs: killed at its limit of {:g} s{}{}".format(run["limit"], complete, had_printed)
        problem = _problem(HANG, run, text, output)
        return problem._replace(last_seen=texts.sanitized(f"; at last it had {words}")) if words else problem
    if run["status"] != 0:
        is_complete = _is_complete(facts, output, side)
        when = " after the program had ended and its metrics were complete" if is_complete else ""
        return _problem(STATUS, run, reasons.describe(run["status"], *_printed(output), when=when), output)
    death = reasons.died(*_printed(output))
    return _problem(STATUS, run, f"exit status 0, though a rank died: {death}", output) if death else None


def _is_complete(facts: Facts, output: Path, side: str) -> bool:
    """Return whether a failed run has printed all metrics and answers, without a wrong answer."""
    try:
        values = None if _wrong_ranks(facts, output) else _values(facts, output, side)
    except UnreadableError:
        return False
    return values is not None and bool(values.metrics) and not _wrong(facts, values, side)


def _wrong_ranks(facts: Facts, output: Path) -> str:
    """Return a message if a run had a wrong number of ranks; else an empty text.

    :raises UnreadableError: the run did not print the number.
    """
    if facts.rank_count is None:
        return ""
    count = read_answer(facts.rank_count, output)
    if count == facts.ranks:
        return ""
    return (
        f"ran with {count:g} ranks instead of {facts.ranks}: the launcher and the program's MPI do not understand each "
        "other (n singletons instead of one job)"
    )


def _values(facts: Facts, output: Path, side: str) -> Values:
    """Return the values of a run.

    :raises UnreadableError: a value cannot be read.
    """
    values = Values({}, {}, {})
    for metric in facts.metrics_of(side):
        line = absence(metric, output)
        if line is None:
            values.metrics[metric.name] = _value(metric, output)
        # The reasons of programs, as for pairs of ranks, are known from their metrics' names.
        elif metric.file != contract.OUT:
            values.absent[metric.name] = line
    for answer in facts.answers_of(side):
        values.answers[answer.name] = read_answer(answer, output)
    return values


def _wrong(facts: Facts, values: Values, side: str) -> List[str]:
    """Return a line for each answer that is wrong by itself."""
    problems = [problem(answer, values.answers[answer.name]) for answer in facts.answers_of(side)]
    return [problem for problem in problems if problem]


def _printed(output: Path) -> Tuple[str, str]:
    """Return the standard error and the standard output of a run; only both ends if it is very long."""
    files = (output / name for name in (contract.ERR, contract.OUT))
    err, out = (texts.ends(file) if file.exists() else "" for file in files)
    return err, out


def lines(problems: Iterable[Problem], runs: Mapping[str, int]) -> List[str]:
    """Return a line for each problem, in the order in which they occurred.

    :param runs: number of runs of each side.
    """
    alike: Dict[tuple, List[Problem]] = collections.OrderedDict()
    for problem in problems:
        alike.setdefault(_likeness(problem), []).append(problem)
    return [_line(group, runs.get(group[0].side, 1)) for group in alike.values()]


def _likeness(problem: Problem) -> tuple:
    """Return the key of a problem, without numbers; problems with equal keys share a line."""
    text = problem.text
    if problem.kind in (HANG, OUTPUT, STATUS):
        status, _, reason = text.partition(": ")
        text = f"{status}: {_without_numbers(reason)}"
    elif problem.kind == UNREADABLE:
        text = _without_numbers(text)
    return problem.kind, problem.side, text


def _without_numbers(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", text)


def _line(group: List[Problem], runs: int) -> str:
    first, rounds = group[0], sorted({problem.round for problem in group})
    *before, last = (str(number) for number in rounds)
    where = "rounds {} and {}".format(", ".join(before), last) if before else f"round {last}"
    side = "" if first.kind == DIFFER else f", {first.side}"
    notes = [f"{len(rounds)} of {runs} runs"] if runs > 1 else []
    if first.output:
        notes.append("{} output: {}".format("the first one's" if before else "its", first.output))
    return f"{where}{side}: {first.text}{first.last_seen}" + (" ({})".format("; ".join(notes)) if notes else "")
