"""Problems of the runs of a job, and the lines that report them: each problem once, with the number of its runs.

Standard library only, Python 3.6 or newer.
"""

import collections
import re
from typing import Dict, Iterable, List, Mapping

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

#: A reason why a run is not valid, in one line, and the directory of its output (empty where the line names it).
Problem = collections.namedtuple("Problem", "kind side round text output")


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
