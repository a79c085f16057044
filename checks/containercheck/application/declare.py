"""Declare an application file, as data: metrics, answers, steps, work."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from containercheck.job.contract import ENERGY as ENERGY_FILE
from containercheck.job.contract import ERR, MEASURED, MPI_TIMES, UNSUPPORTED, mpi_times_file
from containercheck.job.contract import OUT as STDOUT
from containercheck.job.outputs.reading import REDUCE

#: File with the standard error of a run.
STDERR = ERR
#: Placeholder in a step's command for ``executable``, which may be another program bare than in the image.
PROGRAM = "{program}"
#: Units of operations per second, in GFLOPS.
FLOPS = {"MFLOPS": 1e-3, "GFLOPS": 1.0, "TFLOPS": 1e3}
#: Values that words of a metric may have.
_ALLOWED: Mapping[str, tuple[str | None, ...]] = {
    "better": ("higher", "lower"),
    "compare": ("ratio", "difference"),
    "scaling": (None, "strong", "weak"),
}
#: Name, pattern, unit and tolerance of the time in MPI, compared by difference: a ratio near zero has no meaning. The
#: share is judged; seconds depend on the length of a run.
_MPI_TIMES = (
    ("mpi_seconds", r"^mpi (\S+) s", "s", 60.0),
    ("mpi_share", r"^mpi .*share (\S+) %", "%", 10.0),
    ("mpi_imbalance", r"^imbalance (\S+) %", "%", 10.0),
)
#: Command that notes when a run began, for programs that print its time less their computation.
RUN_BEGAN = "export RUN_BEGAN=$(date +%s.%N)"


def skip_unless(test: str, reason: str) -> str:
    """Return the command, for ``input_commands``, that skips a check if a shell's test fails on the node.

    :param reason: may have variables and commands that the shell substitutes.
    """
    return f'{test} || {{ echo "error: {reason}" >&2; exit {UNSUPPORTED}; }}'


def skip_without_threads(program: str) -> str:
    """Return the command for ``input_commands`` that skips a check if its program has no threads on the node.

    The threads come from OpenMP, or from a BLAS with its own threads. Both follow OMP_NUM_THREADS.

    :param program: as a word of the shell.
    """
    linked = f'ldd "$(command -v {program})" 2>/dev/null | grep -qE "lib(g|i)?omp|openblas|blis|mkl"'
    return skip_unless(linked, f"no threads: $(command -v {program}) is linked with no OpenMP: name a build with it")


@dataclass(frozen=True)
class Metric:
    """Declare a metric (figure of merit): a number that a run reports.

    :param name: one word, without blanks or colons; the name in references and reports.
    :param pattern: regular expression, matched line by line; its group 1 is the number, or a time such as 3m 4.05s.
    :param unit: as in the source.
    :param better: ``higher`` or ``lower``.
    :param reduce: which of several matches counts, or how they are combined: a key of ``reading.REDUCE``.
    :param file: the file that is read: one of the check's output files, or standard output.
    :param tolerance: the overhead that is still accepted, in percent of the baseline (in ``unit`` if ``compare`` is
        ``difference``). None for the check's tolerance, in percent.
    :param compare: ``ratio``, or ``difference`` for a value near zero in the baseline, such as a start-up time.
    :param not_applicable_if: pattern of the line by which the program reports that the metric does not apply.
    :param spread: scatter of the overheads of rounds: a standard deviation in the unit of the tolerance, from
        ``ci/benchmark noise``, rather too large than too small. It decides a quiet check in two rounds. None if not
        measured: a wide default then applies (results/earlier_sessions.py), until the site's nights show the spread.
    :param scaling: ``strong`` or ``weak`` if the source shows by this metric how the application scales over nodes or
        over the cores of a node: with a fixed input, or with one that grows with them. The reports then have speed-up
        and parallel efficiency. For the embedded input, ``work`` takes precedence. None: no such metric.
    :param duet: whether it may be measured while the other side runs on the other half of the cores (sides/rounds.py):
        it measures the program's own computing and memory traffic, and not start-up, files, or an effect that needs the
        whole node.
    :param duet_spread: the spread of such rounds, if it is smaller; None for ``spread``.
    :param sides: names of the only sides that have it; empty for all.
    :param of_peak: whether it is also reported in percent of the cores' peak, if the site states it (peak_per_core).
    :param parts: groups of the pattern; the sum of their numbers counts.
    :param factor: by which the number is multiplied, for a unit that the program does not print.
    :param measures: parts of the machine that the metric depends on, of :data:`MEASURED`. A difference in other parts
        does not explain its overhead. Empty for an application, which depends on all of them.
    """

    name: str
    pattern: str
    unit: str
    better: str = "higher"
    reduce: str = "last"
    file: str = STDOUT
    tolerance: float | None = None
    compare: str = "ratio"
    not_applicable_if: str | None = None
    scaling: str | None = None
    spread: float | None = None
    duet: bool = False
    duet_spread: float | None = None
    sides: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    of_peak: bool = False
    parts: int = 1
    factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse mistakes that would only show at the end of a run.

        :raises ValueError: the message names the mistake.
        """
        _check_reading(self.name, self.pattern, self.reduce, self.parts)
        for name, allowed in _ALLOWED.items():
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"metric {self.name}: {name} is {value!r}, not one of {_listed(allowed)}")
        for name in ("factor", "spread", "duet_spread"):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise ValueError(f"metric {self.name}: {name} is {value!r}, not a positive number")
        if unknown := [word for word in self.measures if word not in MEASURED]:
            raise ValueError(f"metric {self.name}: measures has {unknown[0]!r}, not one of {_listed(MEASURED)}")
        if self.of_peak and self.unit not in FLOPS:
            raise ValueError(f"metric {self.name}: of_peak needs a unit of {_listed(FLOPS)}, not {self.unit}")
        if self.compare == "difference" and self.tolerance is None:
            raise ValueError(
                f"metric {self.name}: compared by difference, it needs its own tolerance, in {self.unit}: "
                "the check's is in percent"
            )

    @property
    def overhead_unit(self) -> str:
        """Unit of the overhead and of the tolerance."""
        return "%" if self.compare == "ratio" else self.unit


def of_peak(metrics: Sequence[Metric], peak: float) -> list[Metric]:
    """Return the metrics in percent of a peak, of those that are reported so.

    :param peak: of all cores, in GFLOPS.
    """
    return [
        replace(
            metric,
            name=f"{metric.name}_of_peak",
            unit="%",
            factor=100 * FLOPS[metric.unit] / peak,
            of_peak=False,
            duet=False,
        )
        for metric in metrics
        if metric.of_peak
    ]


@dataclass(frozen=True)
class Answer:
    """Declare an answer: a result of a run that must be the same everywhere.

    All conditions that are given must hold: ``equals`` and ``at_most`` for each run by itself, ``rtol`` and
    ``atol`` between subject and baseline. Without ``equals`` and ``at_most``, answers must agree exactly by default.

    :param reduce: as for a metric, the last match by default. A text has none: with ``equals`` every match must be
        equal, with ``words`` all of them count.
    :param equals: the text that group 1 of the pattern must be.
    :param at_most: the largest accepted number (a scaled residual, say).
    :param rtol: accepted difference between subject and baseline, relative to the baseline.
    :param atol: the same, absolute, in the answer's own unit.
    :param words: whether the answer is a text, all matches together, which must be the same in subject and baseline.
    :param side: name of the only side that has it, for an answer that is not compared.
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
        """Refuse mistakes that would only show at the end of a run.

        :raises ValueError: the message names the mistake.
        """
        _check_reading(self.name, self.pattern, self.reduce or "last")
        if self.reduce and (self.words or self.equals is not None):
            raise ValueError(f"answer {self.name}: it is a text, of which every match counts: leave out reduce")


@dataclass(frozen=True)
class Identity:
    """Declare a property of its build that a program prints in every run.

    It is read from the first run of each side, and compared. If a program does not print it, nothing is compared.

    :param name: ``version`` or ``instruction set``, in the results.
    :param pattern: regular expression, matched line by line; the group 1 of its first match is the text.
    :param file: the file that is read: one of the check's output files, standard output or standard error.
    """

    name: str
    pattern: str
    file: str = STDOUT

    def __post_init__(self) -> None:
        """Refuse mistakes that would only show at the end of a run.

        :raises ValueError: the message names the mistake.
        """
        _check_groups(self.name, self.pattern)


@dataclass(frozen=True)
class Step:
    """Declare one command of an application that is run in several.

    :param name: the phase; the runner prints ``seconds <name> <number>`` for it, which a metric can read.
    :param command: the program with its options, the same in the container and bare; ``self.program`` in it stands for
        the side's own program.
    :param parallel: whether MPI's launcher starts it, on all ranks; otherwise it runs once.
    """

    name: str
    command: str
    parallel: bool = False


@dataclass(frozen=True)
class Neighbour:
    """Declare a program that runs at the same time as others on a node, with its own ranks and cores (D12.5).

    :param name: one word, at the beginning of its output lines, and in its ``seconds <name> <number>``.
    :param ranks: number of its MPI ranks.
    :param threads: threads, and cores, of each rank.
    :param first_core: number of the first of its cores on the node; they are consecutive.
    :param options: options of the program.
    :param suffix: end of the program's name, if each number of ranks has its own program.
    :param environment: variables of its ranks, and of no other process; the values are words of the shell.
    :param binds: directories of the host for its container, by the path that they replace there.
    :param launcher: words that start its ranks; the library sets them.
    """

    name: str
    ranks: int
    threads: int
    first_core: int
    options: tuple[str, ...] = ()
    suffix: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)
    launcher: str = ""

    @property
    def cores(self) -> int:
        """Number of cores that it has to itself."""
        return self.ranks * self.threads


def side_by_side(mixes: Sequence[tuple[int, int]]) -> list[Neighbour]:
    """Return programs of these ranks and threads, one after the other on the cores of a node.

    >>> [(program.name, program.first_core) for program in side_by_side([(3, 2), (6, 3), (2, 2)])]
    [('program1', 0), ('program2', 6), ('program3', 24)]
    """
    first, programs = 0, []
    for number, (ranks, threads) in enumerate(mixes, 1):
        programs.append(Neighbour(f"program{number}", ranks, threads, first))
        first += ranks * threads
    return programs


@dataclass(frozen=True)
class Work:
    """Declare the work of a run, its time and memory: an input that grows with the cores, or a fixed case.

    The times are estimates from bare runs on two cores of an AMD EPYC 9004. They set the limits and the cost of a job.

    :param unit: unit of the amount of work, a plural, such as ``atoms``.
    :param min_amount: the amount for few cores, and for any number if the input is a fixed case.
    :param amount_per_core: the amount for each core; 0 for a fixed case.
    :param max_amount: the largest input that makes sense; None for any.
    :param cube_unit: the amount in one box, for an input that is a cube of boxes: the amount is rounded up to the next
        whole cube; 0 for an input of any size.
    :param fixed_seconds: seconds of a run that do not depend on the amount.
    :param serial_seconds_per_unit: seconds for each unit in one process alone.
    :param parallel_seconds_per_unit: core seconds for each unit.
    :param setup_seconds_per_unit: seconds for each unit to make the input, once in a job.
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
        """Return the amount of work of a run on this many cores."""
        grown = max(self.min_amount, self.amount_per_core * cores)
        grown = min(grown, self.max_amount) if self.max_amount else grown
        if not self.cube_unit:
            return grown
        # Rounded first: the computed root of a whole cube may be a little above its edge.
        return self.cube_unit * math.ceil(round((grown / self.cube_unit) ** (1 / 3), 6)) ** 3

    def seconds(self, amount: float, cores: int) -> float:
        """Return the seconds that a run takes."""
        return self.fixed_seconds + amount * (self.serial_seconds_per_unit + self.parallel_seconds_per_unit / cores)


def seconds_of(step: str, **facts: Any) -> Metric:
    """Return the metric ``seconds_<step>``: the wall-clock time of one step, in seconds."""
    return Metric(f"seconds_{step}", rf"^seconds {re.escape(step)} (\S+)$", "s", better="lower", **facts)


def by_ratio(metrics: list[Metric]) -> list[Metric]:
    """Return the metrics compared by ratio, with the check's tolerance, for an input with long enough runs."""
    return [
        replace(metric, compare="ratio", tolerance=None, spread=None) if metric.compare == "difference" else metric
        for metric in metrics
    ]


def mpi_times_metrics(programs: Sequence[str]) -> list[Metric]:
    """Return the metrics of the time in MPI: of a program's last step with MPI, or of each of several programs.

    A library that is preloaded into the ranks measures it (``-S mpi_times=yes``, checks/src/mpitimes). D12.6 table 6.3
    has seconds in MPI of BT-MZ, D12.5 figure 22 the ranks of Amber, CHPCE profiles of HPCC.

    :param programs: names of programs that run at the same time; empty for a single program.
    """
    metrics = [
        Metric(name, pattern, unit, better="lower", file=MPI_TIMES, compare="difference", tolerance=tolerance)
        for name, pattern, unit, tolerance in _MPI_TIMES
    ]
    if not programs:
        return metrics
    return [
        replace(metric, name=f"{metric.name}_{program}", file=mpi_times_file(program))
        for program in programs
        for metric in metrics
    ]


def _check_reading(name: str, pattern: str, reduce: str, parts: int = 1) -> None:
    """Refuse a name, a pattern or a reduction that cannot be used.

    :raises ValueError: the message names the mistake.
    """
    if not re.fullmatch(r"[\w.+/-]+", name):
        raise ValueError(f"name {name!r}: letters, digits and _ . + / - only")
    if reduce not in REDUCE:
        raise ValueError(f"{name}: reduce is {reduce!r}, not one of {_listed(REDUCE)}")
    _check_groups(name, pattern, parts)


def _check_groups(name: str, pattern: str, parts: int = 1) -> None:
    if re.compile(pattern).groups != parts:
        count = "exactly one group, for the value" if parts == 1 else f"{parts} groups, for the parts of the value"
        raise ValueError(f"{name}: the pattern needs {count}")


def _listed(words: Iterable[object]) -> str:
    return ", ".join(str(word) for word in words if word is not None)


#: Energy of a job on one node. The counters do not separate two sides of a duet.
ENERGY = Metric("energy", r"^energy (\S+) J", "J", better="lower", file=ENERGY_FILE, not_applicable_if="^no energy: ")
