"""What an application file declares: figures of merit, answers, and steps. Data; how they are read is in verdict/."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from containercheck.node.contract import OUT as STDOUT
from containercheck.node.contract import UNSUPPORTED
from containercheck.node.outputs.reading import REDUCE

#: Stands in a step's command for the check's ``executable``, which may be another one bare than in the image.
PROGRAM = "{program}"
#: Command that notes when a run began, for programs that tell what they took less their computation.
RUN_BEGAN = "export RUN_BEGAN=$(date +%s.%N)"


def skip_unless(test: str, reason: str) -> str:
    """Return the command, for ``input_commands``, that skips a check where a shell's test fails on the node.

    :param reason: may have what the shell fills in.
    """
    return f'{test} || {{ echo "error: {reason}" >&2; exit {UNSUPPORTED}; }}'


@dataclass(frozen=True)
class Figure:
    """A figure of merit: a number that a run reports.

    :param name: one word, without blanks or colons; the name in references and reports.
    :param pattern: regular expression, matched line by line; its group 1 is the number, or a time such as 3m 4.05s.
    :param unit: as the source gives it.
    :param better: ``higher`` or ``lower``.
    :param reduce: which match counts where there are several, or what is made of them: a key of ``reading.REDUCE``.
    :param file: the file that it stands in: one of the check's output files, or standard output.
    :param tolerance: the overhead that is still accepted, in percent of the baseline (of ``unit`` where ``compare``
        is ``difference``). None leaves it to the check, whose own is in percent.
    :param margin: by how much a container may be worse than another one whose successor it is to be, in the unit of the
        tolerance. None: the tolerance, or a fifth of it where ``compare`` is ``difference``: that is against the host.
    :param compare: ``ratio``, or ``difference`` for what the baseline hardly has at all, such as a start-up time.
    :param not_applicable_if: pattern of a line in which the program itself says that the figure does not apply here.
    :param spread: by how much the overheads of rounds scatter: a standard deviation in the unit of the tolerance, from
        ``ci/benchmark noise``, rather too large than too small. It decides a quiet check in two rounds. None where
        nobody has measured it: a wide default counts then (verdict/known_spreads.py), until the site's own nights tell.
    :param scaling: ``strong`` or ``weak`` for the figure by which the source shows how the application scales over
        nodes: a run works on the same there, or on more the more nodes there are. The reports then tell speed-up and
        parallel efficiency. What ``work`` says of the embedded input counts before that. None: no such figure.
    :param duet: whether it may be measured while the other side runs on the other half of the cores (sides/duets.py):
        it is of the program's own computing and memory traffic, and not of start-up, files, or what needs the whole
        node.
    """

    name: str
    pattern: str
    unit: str
    better: str = "higher"
    reduce: str = "last"
    file: str = STDOUT
    tolerance: float | None = None
    margin: float | None = None
    compare: str = "ratio"
    not_applicable_if: str | None = None
    scaling: str | None = None
    spread: float | None = None
    duet: bool = False

    def __post_init__(self) -> None:
        """Refuse what would only be noticed at the end of a run.

        :raises ValueError: it says what is wrong.
        """
        _check_common(self.name, self.pattern, self.reduce)
        if self.better not in ("higher", "lower"):
            raise ValueError(f"figure {self.name}: better is {self.better!r}, not 'higher' or 'lower'")
        if self.compare not in ("ratio", "difference"):
            raise ValueError(f"figure {self.name}: compare is {self.compare!r}, not 'ratio' or 'difference'")
        if self.scaling not in (None, "strong", "weak"):
            raise ValueError(f"figure {self.name}: scaling is {self.scaling!r}, not 'strong' or 'weak'")
        if self.spread is not None and not 0 < self.spread < math.inf:
            raise ValueError(f"figure {self.name}: spread is {self.spread!r}, not a positive number")
        if self.compare == "difference" and self.tolerance is None:
            raise ValueError(
                f"figure {self.name}: compared by difference, it needs a tolerance of its own, in {self.unit}: "
                "the check's is in percent"
            )

    @property
    def overhead_unit(self) -> str:
        """Unit of the overhead and of the tolerance."""
        return "%" if self.compare == "ratio" else self.unit


@dataclass(frozen=True)
class Answer:
    """An answer: what a run computes and what must come out the same everywhere.

    Of the conditions that are given, all must hold: ``equals`` and ``at_most`` for each run by itself, ``rtol`` and
    ``atol`` between subject and baseline. Without ``equals`` and ``at_most``, answers must agree exactly by default.

    :param reduce: as for a figure, the last match by default. A text has none: with ``equals`` every match must be
        equal, with ``words`` all of them count.
    :param equals: the text that group 1 of the pattern must be.
    :param at_most: the largest accepted number (a scaled residual, say).
    :param rtol: accepted difference between subject and baseline, relative to the baseline.
    :param atol: the same, absolute, in the answer's own unit.
    :param words: the answer is a text, all matches together, and subject and baseline must have the same.
    :param side: name of the only side that has it, whose runs are then not compared with others in it.
    """

    name: str
    pattern: str
    file: str = STDOUT
    reduce: str | None = None
    equals: str | None = None
    at_most: float | None = None
    rtol: float | None = None
    atol: float | None = None
    words: bool = False
    side: str | None = None

    def __post_init__(self) -> None:
        """Refuse what would only be noticed at the end of a run.

        :raises ValueError: it says what is wrong.
        """
        _check_common(self.name, self.pattern, self.reduce or "last")
        if self.reduce and (self.words or self.equals is not None):
            raise ValueError(f"answer {self.name}: it is a text, of which every match counts: leave out reduce")


@dataclass(frozen=True)
class Identity:
    """Something that a program says of itself in every run, and that differs from build to build.

    It is read from the first run of each side, and compared. Where a program does not say it, nothing is compared.

    :param name: ``version`` or ``instruction set``, in the results.
    :param pattern: regular expression, matched line by line; the group 1 of its first match is the text.
    :param file: the file that it stands in: one of the check's output files, or standard output.
    """

    name: str
    pattern: str
    file: str = STDOUT

    def __post_init__(self) -> None:
        """Refuse what would only be noticed at the end of a run.

        :raises ValueError: it says what is wrong.
        """
        _check_pattern(self.name, self.pattern)


@dataclass(frozen=True)
class Step:
    """One command of an application that is run in several.

    :param name: the phase; the runner prints ``seconds <name> <number>`` for it, which a figure can read.
    :param command: the program with its options, as typed inside the container and bare; ``self.program`` in it is
        the side's own.
    :param parallel: whether MPI's launcher starts it, on all ranks; otherwise it runs once.
    """

    name: str
    command: str
    parallel: bool = False


@dataclass(frozen=True)
class Work:
    """What one run works on, and what that takes: how an input grows with the cores, or that it is a fixed case.

    The times are estimates, from bare runs on two cores of an AMD EPYC 9004, for what a job is asked for and costs.

    :param unit: of what it works on, a plural, such as ``atoms``.
    :param min_amount: the amount for few cores, and for any number where the input is a fixed case.
    :param amount_per_core: the amount that a core should have; 0 for a fixed case.
    :param max_amount: the largest input that makes sense; None for any.
    :param cube_unit: the amount in one of the boxes that the input has a whole number of, as many in each direction, so
        that it is the next larger cube of them; 0 for an input of any size.
    :param fixed_seconds: seconds that a run takes besides.
    :param serial_seconds_per_unit: seconds for each unit that one process alone takes.
    :param parallel_seconds_per_unit: seconds of a core for each unit.
    :param setup_seconds_per_unit: seconds for each unit of what makes the input, once in a job.
    :param bytes_per_unit: bytes for each unit, on all nodes together.
    :param bytes_per_core: bytes for each core, of the program itself.
    :param bytes_per_node: bytes on each node, of the program itself.
    """

    unit: str
    min_amount: float
    amount_per_core: float = 0.0
    max_amount: float | None = None
    cube_unit: float = 0.0
    fixed_seconds: float = 0.0
    serial_seconds_per_unit: float = 0.0
    parallel_seconds_per_unit: float = 0.0
    setup_seconds_per_unit: float = 0.0
    bytes_per_unit: float = 0.0
    bytes_per_core: float = 50e6
    bytes_per_node: float = 0.0

    @property
    def max_cores(self) -> int | None:
        """Return the most cores that the input has work for; None for any number."""
        return int(self.max_amount / self.amount_per_core) if self.max_amount and self.amount_per_core else None

    def amount(self, cores: int) -> float:
        """Return what a run on so many cores works on."""
        grown = max(self.min_amount, self.amount_per_core * cores)
        grown = min(grown, self.max_amount) if self.max_amount else grown
        if not self.cube_unit:
            return grown
        # Rounded first: the root of a whole cube may come out a little above its edge.
        return self.cube_unit * math.ceil(round((grown / self.cube_unit) ** (1 / 3), 6)) ** 3

    def seconds(self, amount: float, cores: int) -> float:
        """Return what a run takes."""
        return self.fixed_seconds + amount * (self.serial_seconds_per_unit + self.parallel_seconds_per_unit / cores)


def seconds_of(step: str, **facts) -> Figure:
    """Return the figure of merit ``seconds_<step>``: the wall-clock time of one step, in seconds."""
    return Figure(f"seconds_{step}", rf"^seconds {re.escape(step)} (\S+)$", "s", better="lower", **facts)


def by_ratio(figures: list[Figure]) -> list[Figure]:
    """Return the figures compared by ratio, with the check's tolerance: for an input that is long enough for it."""
    return [
        replace(figure, compare="ratio", tolerance=None, spread=None) if figure.compare == "difference" else figure
        for figure in figures
    ]


def _check_common(name: str, pattern: str, reduce: str) -> None:
    if not re.fullmatch(r"[\w.+/-]+", name):
        raise ValueError(f"name {name!r}: letters, digits and _ . + / - only")
    _check_pattern(name, pattern)
    if reduce not in REDUCE:
        raise ValueError(f"{name}: reduce is {reduce!r}, not one of {', '.join(REDUCE)}")


def _check_pattern(name: str, pattern: str) -> None:
    if re.compile(pattern).groups != 1:
        raise ValueError(f"{name}: the pattern needs exactly one group, for the value")
