"""Compare the nodes of each partition with their peers by short jobs, and name the bad nodes.

The checks run again on the nodes that are worse, and a node is named only if both runs show it: anything may have
disturbed the first one. Distances use medians and the scale Qn (P. Rousseeuw and C. Croux, JASA 88, 1993), so half of
the nodes may be bad. Simulations of 8 good nodes with 40 metrics gave the rate of sweeps in which any node is worse in
the first run. It is 0.5 % if nodes differ by 3 % (standard deviation), 1 % at 5 %, and 7 % at 10 %.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scipy.special import stdtr

from containercheck import reframe_internals
from containercheck.command import run
from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.history import causes
from containercheck.history.shifts import false_discoveries
from containercheck.results import exported, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import by_key, count, first_line, say
from containercheck.results.row import is_finite
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Workplace
from containercheck.session.usage import UsageError

#: Checks of a sweep, in ReFrame's notation. Their jobs have a bare side too.
CHECKS = r"^(StartUp|PingPong|HPCC|ImageFiles)%.*variant=generic%.*num_nodes=1($|%)"
#: Seconds for the rounds of a job.
SECONDS = 30
#: Schedulers with nodes that ReFrame can list.
LISTING = ("slurm", "squeue")
#: Parameter of ReFrame's --distribute for the node of a case.
NODE = ".nid"
BARE, CONTAINER = "bare", "container"
#: Fewest nodes of a group in which outliers are named.
FEWEST = 6
#: Most facts about a bad node.
FACTS = 3
#: Accepted share of good nodes among the named ones, and the smallest difference to report in percent.
NAMED, LEAST = 0.05, 5.0
#: Smallest spread of good nodes in percent: a smaller one is chance.
QUIET = 1.0
#: Degrees of freedom of the scale of n peers, as a part of n - 1: fewer than for a standard deviation.
DEGREES = 0.6


def main(argv: Sequence[str], place: Workplace) -> int:
    """Run a session with a job for each node and check, a second one for bad nodes, and return the exit status."""
    options, rest, _ = parsed("nodes", argv)
    partitions = reframe_process.configuration(rest, place).system["partitions"]
    others = [each["name"] for each in partitions if each["scheduler"] not in LISTING]
    if others:
        problem = f"only Slurm lists its nodes, and {', '.join(others)} has another scheduler"
        raise UsageError(f"{problem}: choose a partition of Slurm, --system=SYSTEM:PARTITION")
    given = reframe_internals.options_of(rest)
    words = [*([] if given.name or given.tag else ["-n", CHECKS]), "-S", f"seconds={SECONDS}", *rest]
    if not any(word.startswith("--distribute") for word in rest):
        words.append("--distribute=avail")
    words += ["--estimate"] if options.estimate else []
    words += ["--verbose"] if options.verbose else []
    # The report of the last session is not overwritten, so that --resume can continue it.
    own = replace(place, report_file=place.reports / "nodes" / "run-report.json")
    first: list[Case] = []
    suspects: list[str] = []

    def judge_or_keep(cases: Sequence[Case], problems: Sequence[str]) -> int:
        named = {outlier.node for outlier in outliers(readings(selections.ran(cases)))}
        if problems or not named:
            return conclude(cases, problems)
        first.extend(cases)
        suspects.extend(sorted(named))
        return FINE

    status = run.session(words, own, judge_or_keep)
    if not suspects:
        return status
    say(f"worse than their peers, and run again: {', '.join(suspects)}")
    # ReFrame selects by name before it distributes: all checks run again there.
    again = [*words, "-J", f"nodelist={','.join(suspects)}"]
    own = replace(own, report_file=own.report.with_name("run-again.json"))
    return run.session(again, own, lambda cases, problems: conclude(first, problems, cases))


def conclude(cases: Sequence[Case], problems: Sequence[str], again: Sequence[Case] = ()) -> int:
    """Print the bad nodes, and return the exit status.

    :param again: second runs of some of the cases.
    """
    ran = selections.ran(cases)
    # Verdicts on containers and an ended session are not defects of nodes.
    broken = [case for case in ran if case.result == "fail" and case.phase != "performance"]
    reasons = ["; ".join(filter(None, [first_line(case.fail_reason), exported.cause_of(case)])) for case in broken]
    worse = confirmed([*readings(ran)], readings(selections.ran(again)))
    lines = [f"{_node(case)}: {case.application} failed: {reason}" for case, reason in zip(broken, reasons)]
    lines += described(worse)
    for node in dict.fromkeys([*map(_node, broken), *(outlier.node for outlier in worse)]):
        if facts := unlike_peers(node, ran):
            lines.append(f"{node}, unlike its peers: {'; '.join(facts[:FACTS])}")
    for line in [*lines, *problems]:
        say(line)
    names = {case.partition: {_node(other) for other in ran if other.partition == case.partition} for case in ran}
    few = [name for name, nodes in names.items() if len(nodes) < FEWEST]
    for name in few:
        say(f"{name} has {count(len(names[name]), 'node')}: to name one takes {FEWEST}")
    if not (lines or problems or few):
        say(f"no node is worse than its peers, of {count(sum(map(len, names.values())), 'node')}")
    return BROKEN if lines else NOT_JUDGED if problems or few or not ran else FINE


def readings(cases: Sequence[Case]) -> Iterator[Reading]:
    """Yield the values of each node, bare and in containers."""
    for case in cases:
        for row in case.rows:
            place, check = _check(case)
            for side, value in ((BARE, row.baseline), (CONTAINER, row.subject)):
                if is_finite(value) and value > 0:
                    yield Reading(_node(case), (place, f"{check} {row.metric}", side), value, row.better)


def unlike_peers(node: str, cases: Sequence[Case]) -> list[str]:
    """Return the recorded facts in which a node differs from all of its peers, as ``fact: theirs -> its own``."""
    found: dict[str, None] = {}
    for case in (case for case in cases if _node(case) == node):
        peers = [other.provenance for other in cases if _check(other) == _check(case) and _node(other) != node]
        # Facts that are new on each node, such as its name, are left out.
        if len(peers) >= FEWEST - 1:
            found.update(dict.fromkeys(causes.differences(peers, [case.provenance])))
    return [*found]


def described(found: Sequence[Outlier]) -> list[str]:
    """Return a line for each metric of a bad node, with the affected sides."""
    sides: dict[tuple[str, str], dict[str, float]] = {}
    for outlier in found:
        _, metric, side = outlier.group
        sides.setdefault((outlier.node, metric), {})[side] = outlier.worse
    return [f"{node}: {metric} is {_where(worse)}" for (node, metric), worse in sides.items()]


def _where(worse: dict[str, float]) -> str:
    amount = f"{max(worse.values()):.0f} % worse than on its peers"
    if len(worse) == 2:
        return f"{amount}, bare and in containers: the node"
    return f"{amount}, bare only" if BARE in worse else f"{amount}, in containers only: see its runtime and limits"


def _check(case: Case) -> tuple[str, str]:
    """Return partition and check of a case, which are the same on all nodes."""
    axes = [value for axis, value in case.axes.items() if not axis.startswith(".")]
    return case.place, " ".join([case.application, *axes])


def _node(case: Case) -> str:
    return case.axes.get(NODE) or str(case.provenance.get("host") or "")


@dataclass(frozen=True)
class Reading:
    """A value of a node.

    :ivar group: partition, metric and side; only readings of the same group are compared.
    :ivar value: positive value.
    :ivar better: whether ``higher`` or ``lower`` values are better.
    """

    node: str
    group: tuple[str, ...]
    value: float
    better: str


@dataclass(frozen=True)
class Outlier:
    """A node that is worse than its peers in one group.

    :ivar worse: difference in percent.
    :ivar p: probability of such a distance for a good node, corrected for the number of readings.
    """

    node: str
    group: tuple[str, ...]
    worse: float
    p: float


def outliers(readings: Iterable[Reading]) -> list[Outlier]:
    """Return the nodes that are worse than their peers, the worst first; groups with too few nodes are left out."""
    groups = by_key(readings, lambda reading: reading.group).values()
    found = [outlier for group in groups if len(group) >= FEWEST for outlier in _distances(group)]
    corrected = false_discoveries([outlier.p for outlier in found])
    named = [Outlier(each.node, each.group, each.worse, p) for each, p in zip(found, corrected) if p <= NAMED]
    return sorted((each for each in named if each.worse >= LEAST), key=lambda each: -each.worse)


def confirmed(first: Sequence[Reading], again: Iterable[Reading]) -> list[Outlier]:
    """Return the outliers that a second run shows too: anything may have disturbed the first one."""
    new = {(reading.node, reading.group): reading for reading in again}
    second = outliers(new.get((reading.node, reading.group), reading) for reading in first)
    known = {(outlier.node, outlier.group) for outlier in outliers(first)}
    return [outlier for outlier in second if (outlier.node, outlier.group) in known]


def _distances(group: Sequence[Reading]) -> list[Outlier]:
    """Return each node with its distance from the others, large or small."""
    # With logarithms, a half and a double have the same distance.
    sign = -1 if group[0].better == "higher" else 1
    logs = [100 * sign * math.log(reading.value) for reading in group]
    found = []
    for place, reading in enumerate(group):
        peers = logs[:place] + logs[place + 1 :]
        distance = logs[place] - statistics.median(peers)
        # The median of n values has 1.57 times the variance of their mean.
        error = max(_scale(peers), QUIET) * math.sqrt(1 + 1.57 / len(peers))
        p = float(stdtr(DEGREES * (len(peers) - 1), -distance / error))
        found.append(Outlier(reading.node, reading.group, sign * 100 * math.expm1(sign * distance / 100), p))
    return found


def _scale(values: Sequence[float]) -> float:
    """Return the scale Qn for normal values: about the lower quartile of the distances between two values."""
    size = len(values)
    half = size // 2 + 1
    distances = sorted(abs(first - second) for first, second in itertools.combinations(values, 2))
    return 2.2219 * distances[half * (half - 1) // 2 - 1] * size / (size + (1.4 if size % 2 else 3.8))
