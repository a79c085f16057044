"""Read one run: its metrics and answers, or why it is not valid; and report the problems of many runs.

A run that hung, failed, lost a rank or cannot be read has no values. Problems that are alike share a line, with the
number of their runs.

Standard library only, Python 3.6 or newer.
"""

import collections
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from containercheck.job import contract, texts
from containercheck.job.outputs import reading, reasons
from containercheck.job.outputs.boilerplate import CAUSE, DEATH, ERROR, LIBRARY
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import Output, UnreadableError

#: Kinds of problems of a run. The second problem of one kind, on one side, ends the check.
HANG, OUTPUT, STATUS, RANKS, UNREADABLE, WRONG, DIFFER = (
    "hang",
    "output",
    "exit status",
    "ranks",
    "unreadable",
    "answer",
    "answers differ",
)


class Problem(NamedTuple):
    """A reason why a run is not valid.

    :ivar text: the reason, in one line.
    :ivar output: directory of the run's output; empty where the line names it, or needs none.
    """

    kind: str
    side: str
    round: int
    text: str
    output: str = ""


class Values(NamedTuple):
    """The values of a run, by name: metrics that apply, and answers."""

    metrics: Dict[str, float]
    answers: Dict[str, Union[str, float]]


class RunResult(NamedTuple):
    """The result of a run.

    :ivar values: None where they cannot be read. A wrong answer is a problem, and has a value.
    """

    values: Optional[Values]
    problems: List[Problem]


def read_run(run: Dict[str, Any], facts: Facts, stagedir: Path, side: str) -> RunResult:
    """Return the values of a run, or its problems.

    :param run: of the record.
    :param stagedir: directory with the runs' outputs.
    :param side: name of the side whose metrics and answers it has.
    """
    output = Output(stagedir / run["output"])
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


def _problem(kind: str, run: Dict[str, Any], text: str, output: Optional[Output] = None) -> Problem:
    place = "" if output is None else str(output.directory)
    return Problem(kind, run["side"], run["round"], texts.sanitized(text), place)


def _failure(run: Dict[str, Any], facts: Facts, output: Output, side: str) -> Optional[Problem]:
    """Return why a run failed, whatever it printed as values; None where it did not."""
    if run.get("printed_too_much"):
        return _problem(OUTPUT, run, contract.PRINTED_TOO_MUCH, output)
    if run["timed_out"]:
        complete = "; its metrics were complete" if _is_complete(facts, output, side) else ""
        # Lines of level DEATH only say that its processes were killed.
        printed_error = reasons.error(*_printed(output), levels=(CAUSE, ERROR, LIBRARY))
        had_printed = f"; it had printed: {printed_error}" if printed_error else ""
        return _problem(
            HANG, run, "hangs: killed at its limit of {:g} s{}{}".format(run["limit"], complete, had_printed), output
        )
    if run["status"] != 0:
        is_complete = _is_complete(facts, output, side)
        when = " after the program had ended and its metrics were complete" if is_complete else ""
        return _problem(STATUS, run, reasons.describe(run["status"], *_printed(output), when=when), output)
    death = reasons.died(*_printed(output))
    return _problem(STATUS, run, f"exit status 0, though a rank died: {death}", output) if death else None


def _is_complete(facts: Facts, output: Output, side: str) -> bool:
    """Tell whether a run that failed has printed all metrics and answers, and none that is wrong by itself."""
    try:
        values = None if _wrong_ranks(facts, output) else _values(facts, output, side)
    except UnreadableError:
        return False
    return values is not None and bool(values.metrics) and not _wrong(facts, values, side)


def _wrong_ranks(facts: Facts, output: Output) -> str:
    """Return that a run had another number of ranks than it must have; empty where it had not.

    :raises UnreadableError: it did not print the number.
    """
    if facts.rank_count is None:
        return ""
    count = reading.read_answer(facts.rank_count, output)
    if count == facts.ranks:
        return ""
    return (
        f"ran with {count:g} ranks instead of {facts.ranks}: the launcher and the program's MPI do not understand each "
        "other (n singletons instead of one job)"
    )


def _values(facts: Facts, output: Output, side: str) -> Values:
    """Return the values of a run.

    :raises UnreadableError: one cannot be read.
    """
    metrics = {metric.name: reading.read_metric(metric, output) for metric in facts.metrics_of(side)}
    answers = {answer.name: reading.read_answer(answer, output) for answer in facts.answers_of(side)}
    return Values({name: value for name, value in metrics.items() if value is not None}, answers)


def _wrong(facts: Facts, values: Values, side: str) -> List[str]:
    """Return the answers that are wrong by themselves, a line each."""
    problems = [reading.problem(answer, values.answers[answer.name]) for answer in facts.answers_of(side)]
    return [problem for problem in problems if problem]


def _printed(output: Output) -> Tuple[str, str]:
    """Return the standard error and the standard output of a run; of a very long one, its two ends."""
    files = (output.directory / name for name in (contract.ERR, contract.OUT))
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
    """Return the key of a problem, without the numbers in it; problems with equal keys share a line."""
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
    return f"{where}{side}: {first.text}" + (" ({})".format("; ".join(notes)) if notes else "")
