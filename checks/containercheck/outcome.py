"""From the runner's record to figures, answers, problems and verdicts."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.facts import Answer, Figure, UnreadableError
from containercheck.overhead import FAIL, INCONCLUSIVE, PASS, Overhead, overhead

BASELINE, SUBJECT = "baseline", "subject"
#: Of a figure's interval; of those of all figures of a check together, before one of them is a failure.
CONFIDENCE = 0.95
#: The largest number of rounds that is worth being proposed.
MOST_ROUNDS = 100


@dataclass
class Outcome:
    """What a job's rounds came to.

    :ivar problems: why the runs are not valid; empty when they are. One line each.
    :ivar figures: the figures of each side, a value a round, in the order of the rounds.
    """

    problems: list[str] = field(default_factory=list)
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """One figure of subject and baseline compared.

    ``accepted`` is the range in which the overhead must lie: up to the tolerance, or what a reference expects.
    ``overhead`` has the interval of this figure by itself, ``cautious`` the wider one that holds for all figures of the
    check together.
    """

    figure: Figure
    baseline: float
    subject: float
    overhead: Overhead
    cautious: Overhead
    accepted: tuple[float, float]
    expected: bool

    @property
    def unit(self) -> str:
        """Unit of the overhead and of what is accepted."""
        return "%" if self.figure.compare == "ratio" else self.figure.unit

    @property
    def verdict(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``; only the cautious interval makes it a failure."""
        if self.overhead.verdict(*self.accepted) == PASS:
            return PASS
        return FAIL if self.cautious.verdict(*self.accepted) == FAIL else INCONCLUSIVE

    def __str__(self) -> str:
        """One line: the figure, its overhead with the interval, and what is accepted."""
        estimate = self.overhead.estimate
        worse = "worse" if estimate > 0 else "better"
        lowest, highest = self.accepted
        accepted = f"expected: {lowest:.3g} to {highest:.3g}" if self.expected else f"tolerance {highest:g}"
        return (
            f"{self.figure.name} is {abs(estimate):.3g} {self.unit} ± {self.overhead.half_width:.2g} {self.unit} "
            f"{worse} than bare ({accepted} {self.unit})"
        )


def is_complete(path: Path) -> bool:
    """Tell whether the runner's record is there and says that all rounds were run."""
    try:
        return json.loads(path.read_text())["complete"]
    except (OSError, ValueError, KeyError):
        return False


def read_record(stagedir: Path) -> dict[str, Any]:
    """Return the runner's record.

    :raises UnreadableError: the runner left none, or did not finish; says what the job printed last.
    """
    try:
        record = json.loads((stagedir / "rounds.json").read_text())
    except (OSError, ValueError):
        raise UnreadableError("no rounds were run") from None
    if not record["complete"]:
        raise UnreadableError(f"the job ended after {len(record['runs'])} runs, before all rounds were done")
    return record


def evaluate(
    record: dict[str, Any],
    stagedir: Path,
    figures: Sequence[Figure],
    answers: Sequence[Answer],
    rank_count: Answer | None,
    ranks: int,
) -> Outcome:
    """Read all figures and answers of the runs in ``record``.

    :param rank_count: where the program says how many ranks it ran with; None for programs without MPI.
    :param ranks: how many it must be.
    """
    outcome = Outcome(seconds=sum(run["seconds"] for run in record["runs"]))
    read: dict[tuple[int, str], dict[str, str | float]] = {}
    for run in record["runs"]:
        where = f"round {run['round']}, {run['side']}"
        failed = _failure(run, record["limit"], stagedir / run["output"])
        if failed:
            outcome.problems.append(f"{where}: {failed}")
            continue
        try:
            _read_run(run, stagedir / run["output"], figures, answers, rank_count, ranks, outcome, read)
        except UnreadableError as error:
            outcome.problems.append(f"{where}: {error}")
    _compare_answers(answers, read, outcome)
    _same_length(outcome)
    return outcome


def _failure(run: dict[str, Any], limit: float, output: Path) -> str | None:
    if run["timed_out"]:
        return f"hangs: killed at its limit of {limit:g} s (its output: {output})"
    if run["status"] != 0:
        return f"exit status {run['status']}: {_last_line(output)}"
    return None


def _last_line(output: Path) -> str:
    for name in ("err", "out"):
        # Rulers, such as mpirun draws around its messages, say nothing.
        lines = [line for line in (output / name).read_text(errors="replace").splitlines() if re.search(r"\w", line)]
        telling = [line for line in lines if "FATAL" in line or "rror" in line] or lines
        if telling:
            return f"{telling[-1].strip()} (its output: {output})"
    return f"it printed nothing ({output})"


def _read_run(
    run: dict[str, Any],
    output: Path,
    figures: Sequence[Figure],
    answers: Sequence[Answer],
    rank_count: Answer | None,
    ranks: int,
    outcome: Outcome,
    read: dict[tuple[int, str], dict[str, str | float]],
) -> None:
    where = f"round {run['round']}, {run['side']}"
    if rank_count is not None:
        counted = rank_count.read(output)
        if counted != ranks:
            outcome.problems.append(
                f"{where}: ran with {counted:g} ranks instead of {ranks}: the launcher and the program's MPI do not "
                "understand each other (n singletons instead of one job)"
            )
            return
    values = {figure.name: figure.read(output) for figure in figures}
    for name, value in values.items():
        if value is not None:
            outcome.figures.setdefault(name, {}).setdefault(run["side"], []).append(value)
    own = {answer.name: answer.read(output) for answer in answers}
    for answer in answers:
        if problem := answer.problem(own[answer.name]):
            outcome.problems.append(f"{where}: wrong answer: {problem}")
    read[run["round"], run["side"]] = own


def _compare_answers(
    answers: Sequence[Answer], read: dict[tuple[int, str], dict[str, str | float]], outcome: Outcome
) -> None:
    for (number, side), own in read.items():
        reference = read.get((number, BASELINE))
        if side != SUBJECT or reference is None:
            continue
        for answer in answers:
            if problem := answer.disagreement(reference[answer.name], own[answer.name]):
                outcome.problems.append(f"round {number}: answers differ: {problem}")


def _same_length(outcome: Outcome) -> None:
    """A figure that some runs had and others had not was lost, whatever the program said of it."""
    if outcome.problems:
        return
    for name, sides in outcome.figures.items():
        counts = {side: len(values) for side, values in sides.items()}
        if len(set(counts.values())) > 1:
            outcome.problems.append(f"figure {name} is missing in some runs: {counts}")


def mpi_problem(record: dict[str, Any], host_mpi: dict[str, Any] | None) -> str | None:
    """Return why the runs do not prove that the subject loaded the MPI that its variant demands, or None.

    :param host_mpi: the plan of the integrated variant; None for the generic one.
    """
    host_paths = _host_paths(record)
    if not host_paths:
        return f"baseline: no process with an MPI library was seen on {record['host']}"
    for run in record["runs"]:
        if run["side"] != SUBJECT:
            continue
        where = f"round {run['round']}, subject"
        if not run["mpi"]:
            return f"{where}: no process with an MPI library was seen on {record['host']}"
        for path, library in run["mpi"].items():
            from_host = (library["device"], library["inode"]) in host_paths
            if host_mpi is not None and not from_host:
                return f"{where}: loaded {path} of the image, not the host's {host_mpi['path']}"
            if host_mpi is None and from_host:
                return f"{where}: loaded the host's {path}, though the generic variant must bring its own"
    return None


def _host_paths(record: dict[str, Any]) -> set[tuple[str, int]]:
    """Device and inode of the MPI libraries that the baseline's processes had mapped."""
    return {
        (library["device"], library["inode"])
        for run in record["runs"]
        if run["side"] == BASELINE
        for library in run["mpi"].values()
    }


def compare(
    figures: Sequence[Figure],
    outcome: Outcome,
    tolerance: float,
    expected: dict[str, tuple[float, float]],
) -> list[Comparison]:
    """Compare every figure that both sides have, in the order in which they are declared.

    Each figure's interval has 95 % confidence. A failure takes more: the intervals that hold for all figures of the
    check together with 95 % (Bonferroni: each has the level 1 - 0.05 / figures). Otherwise a check of fourteen figures
    on a noisy machine would fail for nothing every few sessions.

    :param tolerance: in percent, for the figures that name none of their own.
    :param expected: by figure, the range in which its overhead is expected, from the references.
    """
    level = 1 - (1 - CONFIDENCE) / max(1, len(outcome.figures))
    comparisons = []
    for figure in figures:
        sides = outcome.figures.get(figure.name)
        if not sides:
            continue
        result = overhead(sides[BASELINE], sides[SUBJECT], figure.better, figure.compare, CONFIDENCE)
        cautious = overhead(sides[BASELINE], sides[SUBJECT], figure.better, figure.compare, level)
        highest = tolerance if figure.tolerance is None else figure.tolerance
        comparisons.append(
            Comparison(
                figure,
                statistics.median(sides[BASELINE]),
                statistics.median(sides[SUBJECT]),
                result,
                cautious,
                expected.get(figure.name, (-math.inf, highest)),
                figure.name in expected,
            )
        )
    return comparisons


def failures(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a line for each figure whose overhead is above the tolerance, or is not the expected one."""
    lines = []
    for one in comparisons:
        if one.verdict == FAIL:
            vanished = one.overhead.high < one.accepted[0]
            lines.append(f"{one}" + (": better than its reference, which needs a new value" if vanished else ""))
    return lines


def doubts(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a line for each figure whose verdict is not clear, with what it would take."""
    lines = []
    for one in comparisons:
        if one.verdict == INCONCLUSIVE:
            needed = one.overhead.rounds_needed(*one.accepted) or 0
            advice = f", about {needed} rounds would tell" if needed else ""
            if needed > MOST_ROUNDS:
                advice = f", and {MOST_ROUNDS} rounds would not tell: its runs differ too much"
            lines.append(f"{one}: inconclusive{advice}")
    return lines
