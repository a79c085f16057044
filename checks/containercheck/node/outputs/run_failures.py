"""Explain why a run is not valid, from its output: that it hung, failed, lost a rank, or cannot be read.

Standard library only, Python 3.6 or newer.
"""

from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.node import contract, texts
from containercheck.node.outputs import reading, reasons
from containercheck.node.outputs.boilerplate import CAUSE, DEATH, ERROR, LIBRARY


def hang(run: Dict[str, Any], output: Path, complete: bool) -> str:
    """Return that a run was killed at its limit, with the error that it had printed.

    :param complete: whether its figures were complete; see :func:`has_all_figures`.
    """
    figures = "; its figures were complete" if complete else ""
    # Lines of level DEATH only say that its processes were killed.
    printed_error = reasons.error(*_printed(output), levels=(CAUSE, ERROR, LIBRARY))
    had_printed = f"; it had printed: {printed_error}" if printed_error else ""
    return "hangs: killed at its limit of {:g} s{}{}".format(run["limit"], figures, had_printed)


def failure(run: Dict[str, Any], output: Path, complete: bool) -> str:
    """Return with which status a run ended, and why.

    :param complete: whether its figures were complete; see :func:`has_all_figures`.
    """
    when = " after the program had ended and its figures were complete" if complete else ""
    return reasons.describe(run["status"], *_printed(output), when=when)


def death(output: Path) -> str:
    """Return that a rank of a run died though its launcher ended with status 0; empty where none did."""
    died = reasons.died(*_printed(output))
    return f"exit status 0, though a rank died: {died}" if died else ""


def unreadable(error: reading.UnreadableError, output: Path) -> str:
    """Return what of a run cannot be read, with the error that it printed."""
    printed_error = reasons.error(*_printed(output), levels=(CAUSE, ERROR, DEATH))
    return str(error) + (f"; it printed: {printed_error}" if printed_error else "")


def has_all_figures(facts: Any, run: Dict[str, Any], output: Path) -> bool:
    """Tell whether a run that failed has printed all figures and answers, and none that is wrong by itself.

    :param facts: figures, answers and ranks to look for.
    """
    printed = reading.Output(output)
    try:
        if facts.rank_count is not None and reading.read_answer(facts.rank_count, printed) != facts.ranks:
            return False
        figures = [reading.read_figure(figure, printed) for figure in facts.figures_of(run["side"])]
        answers = [answer for answer in facts.answers if answer.side in (None, run["side"])]
        wrong = [reading.problem(answer, reading.read_answer(answer, printed)) for answer in answers]
    except reading.UnreadableError:
        return False
    return any(figure is not None for figure in figures) and not any(wrong)


def _printed(output: Path) -> Tuple[str, str]:
    """Return the standard error and the standard output of a run; of a very long one, its two ends."""
    files = (output / name for name in (contract.ERR, contract.OUT))
    err, out = (texts.ends(file) if file.exists() else "" for file in files)
    return err, out
