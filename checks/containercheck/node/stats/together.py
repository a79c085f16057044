"""Judge the figures of a check together: its verdict, and whether it needs another round.

A check fails with its first figure that fails. The figures of a check share the error probability of a failure evenly
(Bonferroni), until one has failed; then the others share it among themselves (Holm, Scandinavian Journal of Statistics
6, 1979). In a few more rounds, and no more, the check then names what else is too slow.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

from typing import Iterable

from containercheck.node.stats.boundaries import HORIZON
from containercheck.node.stats.sequential import FAIL, INCONCLUSIVE, PASS, Pairs

#: Round up to which a check that has failed goes on while further figures look too slow, or one round more where it
#: failed later. Node-hours are money: a check that passes takes as many rounds, or more. Of three figures that are four
#: times slower and spread by 15 to 20 %, among fourteen, all are named in 92 of 100 checks (with one round more, 85).
NAMED_UNTIL = 4


def outcome(pairs_of_figures: Iterable[Pairs]) -> str:
    """Return the verdict on a check: ``fail`` if any figure failed, ``pass`` if all passed, else ``inconclusive``.

    A check without figures passes, as there is nothing to be compared.
    """
    verdicts = [pairs.verdict for pairs in pairs_of_figures]
    if FAIL in verdicts:
        return FAIL
    return INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS


def step_down(pairs_of_figures: Iterable[Pairs]) -> None:
    """Judge the open figures of a check anew, after each round, among those that have not failed, as long as one fails.

    Nothing more fails falsely than is promised, however many fail rightly: the first figure that fails falsely does so
    while all that must not fail are among those that it is judged with, and the boundaries for fewer figures are never
    farther out (Maurer and Bretz, Statistics in Biopharmaceutical Research 5, 2013). The first failure of a check takes
    what it takes without this.
    """
    figures, failed = list(pairs_of_figures), 0
    while True:
        before, failed = failed, sum(pairs.verdict == FAIL for pairs in figures)
        if failed == before:
            return
        for pairs in figures:
            pairs.judge_beside(failed)


def more_would_tell(pairs_of_figures: Iterable[Pairs], rounds: int) -> bool:
    """Return whether a check needs another round that may give a verdict.

    Not if every figure has its verdict, or at the horizon. Nor, from round 10 on, if every open figure is
    :attr:`Pairs.hopeless`: what users see is a verdict per figure, so one that may still come is waited for. Where one
    failed, only while another may fail soon (:attr:`Pairs.may_fail`), up to round :data:`NAMED_UNTIL` or one more.

    :param rounds: number of complete rounds.
    """
    figures = list(pairs_of_figures)
    if rounds >= HORIZON:
        return False
    failed = [pairs.decided_after or 0 for pairs in figures if pairs.verdict == FAIL]
    if failed:
        return rounds < max(NAMED_UNTIL, min(failed) + 1) and any(pairs.may_fail for pairs in figures)
    return not all(pairs.hopeless for pairs in figures if pairs.verdict == INCONCLUSIVE)
