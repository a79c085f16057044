"""Compare one figure of two sides: the messages about it, and its row of the results."""

import math
import statistics
from decimal import Decimal
from typing import Any, Dict, NamedTuple, Optional, Sequence

from containercheck.node.stats.openness import CLOSE, FASTER, SLOWER
from containercheck.node.stats.sequential import FAIL, HORIZON, INCONCLUSIVE

#: Correlation of successive rounds above which the error probabilities of the verdict do not hold (sequential.py).
#: For n independent rounds it scatters by 1 / sqrt(n).
CORRELATED = 0.3
#: Verdict on emulated processors, where nothing is judged.
EMULATED = "emulated"
#: Part of its half width by which the middle of an interval may be off the estimate, and still be printed as ±: failing
#: takes more than passing, so that one end may be much farther off. And the largest end that is printed.
LOPSIDED, LARGEST = 0.3, 1000.0


#: What fresh rounds said of a failure (node/job/confirmation.py).
CONFIRMED, REFUTED, UNCONFIRMED = "confirmed", "refuted", "unconfirmed"


class Confirmed(NamedTuple):
    """What fresh rounds said of a figure that failed.

    :ivar said: :data:`CONFIRMED`, :data:`REFUTED`, or :data:`UNCONFIRMED` where there were too few.
    :ivar rounds: number of fresh rounds.
    :ivar first: number of rounds in which it failed, and ``above`` of those above what is accepted.
    :ivar why: reason for which there were too few.
    """

    said: str
    rounds: int
    first: int
    above: int
    why: str = "the time was used up"

    def __str__(self) -> str:
        """The rounds of both phases, in words."""
        counts = f"above it in {self.above} of {self.first} rounds"
        if self.said == CONFIRMED:
            return f"{counts}, confirmed in {self.rounds} more"
        if self.said == REFUTED:
            return f"{counts}, and not in {self.rounds} more"
        return f"{counts}, not confirmed: {self.why}" + (f" after {self.rounds} more" if self.rounds else "")


class Comparison(NamedTuple):
    """One figure of two sides, over all rounds.

    :ivar baseline_label, subject_label: names of the sides, for people.
    :ivar baseline, subject: the figure's values, one a round, in the order of the rounds, in the figure's unit.
    :ivar pairs: both values of each round, with the verdict.
    :ivar expected: whether a reference says what the overhead must be.
    :ivar round_seconds: duration of a round.
    :ivar emulated: whether the nodes' processors are emulated, so that nothing is judged.
    :ivar difference: line that names both builds where they differ; empty where they agree, or are not known.
    :ivar confirmed: what fresh rounds said of a failure; None where nothing failed, or nothing was run again.
    """

    figure: Any
    baseline_label: str
    subject_label: str
    baseline: Sequence[float]
    subject: Sequence[float]
    pairs: Any
    expected: bool
    round_seconds: float
    emulated: bool
    difference: str = ""
    confirmed: Optional[Confirmed] = None

    @property
    def unit(self) -> str:
        """Unit of the overhead."""
        return overhead_unit(self.figure)

    @property
    def verdict(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``; ``emulated`` where nothing is judged."""
        if self.emulated:
            return EMULATED
        return INCONCLUSIVE if self.is_refuted else self.pairs.verdict

    @property
    def is_refuted(self) -> bool:
        """Whether it failed, and fresh rounds speak against that."""
        return self.pairs.verdict == FAIL and self.confirmed is not None and self.confirmed.said == REFUTED

    @property
    def open_kind(self) -> str:
        """Why its verdict is open (node/stats/openness.py); empty where it is not."""
        if self.is_refuted:
            return FASTER if self.vanished else SLOWER
        return self.pairs.open_kind or "" if self.verdict == INCONCLUSIVE else ""

    @property
    def interval(self) -> Optional[float]:
        """Half the width of the interval, in the overhead's unit; None where there are too few rounds for one."""
        low, high = self.pairs.interval
        return (high - low) / 2 if math.isfinite(high - low) else None

    def __str__(self) -> str:
        """One line: the figure, its overhead in this session with the interval, and what is accepted."""
        worse = f"{self.size}{self.uncertainty} {self.direction} than {self.baseline_label}"
        return f"{self.figure.name} is {worse} in this session ({self.details})"

    @property
    def size(self) -> str:
        """The overhead without its sign, with its unit."""
        return f"{short(abs(self.pairs.estimate), 3)} {self.unit}"

    @property
    def direction(self) -> str:
        """``worse`` or ``better``."""
        return "worse" if self.pairs.estimate > 0 else "better"

    @property
    def details(self) -> str:
        """The accepted overhead, in how many rounds it was exceeded, and both builds where they differ."""
        unit = self.unit
        if self.expected:
            least = "at most" if math.isinf(self.pairs.lowest) else f"{short(self.pairs.lowest, 3)} to"
            accepted = f"expected: {least} {short(self.pairs.highest, 3)} {unit}"
        else:
            accepted = f"tolerance {self.pairs.highest:g} {unit}"
        above = f"above it in {self.pairs.above_tolerance} of {self.pairs.rounds} rounds"
        return f"{accepted}; {self.confirmed or above}" + (f"; {self.difference}" if self.difference else "")

    @property
    def uncertainty(self) -> str:
        """The interval of the overhead, printed after its size; empty where there are too few rounds for one."""
        if self.interval is None:
            return ""
        low, high = self.pairs.interval
        wide = self.figure.compare == "ratio" and self.interval > 100
        lopsided = abs(low + high - 2 * self.pairs.estimate) > LOPSIDED * self.interval
        if (wide or lopsided) and max(-low, high) < LARGEST:
            ends = (low, high) if self.direction == "worse" else (-high, -low)
            return f" ({short(ends[0])} to {short(ends[1])} {self.unit})"
        return " (± more than 100 %)" if wide else f" ± {short(self.interval)} {self.unit}"

    @property
    def centre(self) -> float:
        """The subject's figure: the baseline's median, changed by the estimated overhead.

        The median of the subject's own values may lie on the other side of the baseline's median: it ignores which
        values were measured together.
        """
        middle, estimate = statistics.median(self.baseline), self.pairs.estimate
        change = estimate if self.figure.better == "lower" else -estimate
        return middle + change if self.figure.compare == "difference" else middle * (1 + change / 100)

    @property
    def vanished(self) -> bool:
        """Whether the overhead is smaller than what a reference expects."""
        return self.pairs.estimate < self.pairs.lowest

    @property
    def failure(self) -> str:
        """The message about a failed comparison."""
        return f"{self}" + (": better than its reference, which needs a new value" if self.vanished else "")

    @property
    def doubt(self) -> str:
        """The message about an open comparison: what is known, and what would close it."""
        if self.pairs.open_kind == FASTER and not self.expected:
            return f"{self}: does it compute the same? If it does, add a reference that expects this gain"
        return f"{self}: {self.answer}; {self.remedy}"

    @property
    def answer(self) -> str:
        """What is known of a figure whose verdict is open."""
        kind, bound, unit = self.pairs.open_kind, self.pairs.bound, self.unit
        if self.is_refuted:
            return f"{'fast' if self.vanished else 'slow'} once, not again"
        most = "" if bound is None else f"at most {short(bound)} {unit} worse"
        if bound is not None and bound < 0:
            most = f"at least {short(-bound)} {unit} better"
        if kind == SLOWER:
            return "too slow, not yet certain"
        if kind == FASTER and self.expected:
            return "better than its reference, not yet certain"
        if kind == FASTER or self.pairs.gain_keeps_open:
            gain = f"{short(abs(self.pairs.estimate), 3)} {unit} better than {self.baseline_label}"
            return f"{gain}: does it compute the same?" if kind == FASTER else f"{gain}, not yet certain"
        if kind == CLOSE:
            return f"close to the {'range' if self.expected else 'tolerance'}" + (f", {most}" if most else "")
        too_short = f"{in_words(self.pairs.rounds * self.round_seconds)} here is too short to tell {self._accepted}"
        return f"{most}; {too_short}" if most else too_short

    @property
    def remedy(self) -> str:
        """What would close an open verdict."""
        if self.is_refuted:
            return "run it again, on a quieter machine"
        rounds, needed, spread = self.pairs.rounds, self.pairs.rounds_needed, self.pairs.spread
        if needed is not None:
            more = needed - rounds
            return f"about {more} more round{'s'[: more > 1]} would tell"
        if spread is None:
            return "one round tells nothing of the spread"
        would = "did" if rounds >= HORIZON else "would"
        return (
            f"{HORIZON} rounds {would} not tell: its rounds spread by {short(spread)} {self.unit}. "
            "It takes longer runs, or a quieter machine"
        )

    @property
    def _accepted(self) -> str:
        """The accepted overhead, or the range of it, in words."""
        low, high, unit = self.pairs.lowest, self.pairs.highest, self.unit
        return f"{short(high, 3)} {unit}" if math.isinf(low) else f"{short(low, 3)} to {short(high, 3)} {unit}"

    @property
    def warning(self) -> Optional[str]:
        """A message where the rounds correlate, or contradict the known spread: the verdict is unsafe; else None."""
        lines = [self._contradiction, self._correlation]
        return None if self.emulated else "; ".join(filter(None, lines)) or None

    @property
    def _contradiction(self) -> str:
        prior, spread, assumed = self.pairs.prior, self.pairs.spread, self.pairs.assumed_spread
        if not self.pairs.contradicted or prior is None or spread is None or assumed is None:
            return ""
        unit = self.unit
        known = f"{short(prior.spread)} {unit}"
        known = f"the default of {known}" if prior.source == "default" else f"the {known} known from {prior.source}"
        return (
            f"{self.figure.name}: its rounds spread by {short(spread)} {unit}, more than {known}: it is judged with "
            f"{short(assumed)} {unit} instead"
        )

    @property
    def _correlation(self) -> str:
        correlation = self.pairs.correlation
        if correlation is None or correlation <= max(CORRELATED, 2 / math.sqrt(self.pairs.rounds)):
            return ""
        return (
            f"{self.figure.name}: successive rounds correlate by {correlation:.2g}, so its verdict is bolder than "
            "promised: repeat it at another time"
        )

    def row(self, answers_compared: bool = True) -> Dict[str, Any]:
        """Return the row of the results, as ``results.row.Row`` reads it.

        :param answers_compared: whether the check has answers.
        """
        low, high = (end if math.isfinite(end) else None for end in self.pairs.interval)
        lowest = self.pairs.lowest if math.isfinite(self.pairs.lowest) else None
        is_open, prior = self.verdict == INCONCLUSIVE, self.pairs.prior
        return dict(
            figure=self.figure.name,
            unit=self.figure.unit,
            better=self.figure.better,
            baseline=statistics.median(self.baseline),
            baseline_label=self.baseline_label,
            baseline_error=mean_error(self.baseline),
            baseline_spread=spread_of(self.baseline),
            subject=self.centre,
            subject_label=self.subject_label,
            subject_error=mean_error(self.subject),
            subject_spread=spread_of(self.subject),
            overhead=self.pairs.estimate,
            overhead_unit=self.unit,
            low=low,
            high=high,
            interval=self.interval,
            accepted=[lowest, self.pairs.highest],
            expected=self.expected,
            verdict=self.verdict,
            rounds=self.pairs.rounds,
            above=self.pairs.above_tolerance,
            spread=self.pairs.spread,
            correlation=self.pairs.correlation,
            rounds_needed=self.pairs.rounds_needed if is_open and not self.is_refuted else None,
            round_seconds=round(self.round_seconds, 2),
            open_kind=self.open_kind,
            bound=self.pairs.bound if is_open else None,
            answer=self.answer if is_open else "",
            known_spread=prior.spread if prior else None,
            spread_source=prior.source if prior else "",
            contradicted=self.pairs.contradicted,
            difference=self.difference,
            scaling=self.figure.scaling or "",
            emulated=self.emulated,
            answers_compared=answers_compared,
            measures=list(self.figure.measures),
            confirmation=self.confirmed.said if self.confirmed else "",
        )

    @property
    def loss(self) -> float:
        """By how many percent longer the subject takes, whichever direction is better: 100 for half the rate."""
        worse = self.pairs.estimate
        return worse if self.figure.better == "lower" else 100 * worse / max(1e-9, 100 - worse)

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        return self.verdict == FAIL

    @property
    def may_fail(self) -> bool:
        """Whether it is open, and more rounds may make it fail."""
        return self.verdict == INCONCLUSIVE and self.pairs.may_fail


def overhead_unit(figure: Any) -> str:
    """Return the unit of a figure's overhead and of its tolerance."""
    return "%" if figure.compare == "ratio" else str(figure.unit)


def short(value: float, digits: int = 2) -> str:
    """Return a number with a given count of significant digits, and without an exponent.

    >>> short(123.4), short(0.0000321), short(41.26, 3)
    ('120', '0.000032', '41.3')
    """
    return format(Decimal(f"{value:.{digits}g}"), "f")


def in_words(seconds: float) -> str:
    """Return a time in words, rounded.

    >>> [in_words(seconds) for seconds in (7.4, 55, 80, 100, 3600)]
    ['7 s', 'a minute', 'a minute', '2 minutes', '60 minutes']
    """
    if seconds < 50:
        return f"{max(1, round(seconds))} s"
    return "a minute" if seconds < 90 else f"{round(seconds / 60)} minutes"


def mean_error(values: Sequence[float]) -> Optional[float]:
    """Return sigma / sqrt(n), the mean error (D12.6 section 9.2.1), in the unit of the values; None for one value."""
    spread = spread_of(values)
    return None if spread is None else spread / math.sqrt(len(values))


def spread_of(values: Sequence[float]) -> Optional[float]:
    """Return the standard deviation of one side's values over the rounds, in their unit; None for one value.

    That is the dispersion of D12.6, figures 8.4 and 8.11: of bare and of the container, each by itself. The spread of
    the overheads, which the verdict needs, is another one: what both sides have in common cancels there.
    """
    return statistics.stdev(values) if len(values) > 1 else None
