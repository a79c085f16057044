"""What is wrong with the runs of a job, and the lines that tell it: each thing once, with how many runs it was in.

Standard library only, Python 3.6 or newer.
"""

import collections
import re
from typing import Dict, Iterable, List, Mapping

#: What can be wrong with a run. The second of one kind, on one side, ends the check.
HANG, OUTPUT, STATUS, RANKS, UNREADABLE, WRONG, DIFFER = (
    "hang",
    "output",
    "exit status",
    "ranks",
    "unreadable",
    "answer",
    "answers differ",
)

#: Why a run is not valid, in one line, and the directory of its output (empty where the line names it).
Problem = collections.namedtuple("Problem", "kind side round text output")


def lines(problems: Iterable[Problem], runs: Mapping[str, int]) -> List[str]:
    """Return a line for each thing that is wrong, in the order in which they were seen.

    :param runs: how many runs of each side there were.
    """
    alike: Dict[tuple, List[Problem]] = collections.OrderedDict()
    for problem in problems:
        alike.setdefault(_likeness(problem), []).append(problem)
    return [_line(group, runs.get(group[0].side, 1)) for group in alike.values()]


def _likeness(problem: Problem) -> tuple:
    """Return what two problems have in common that are told as one; numbers of processes differ from run to run."""
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
