"""Compare the nodes of each partition with their peers by short jobs, and name the bad nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from containercheck import reframe_internals
from containercheck.command import run
from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.history import peers
from containercheck.history.peers import Outlier, Reading
from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.formatting import count, first_line, say
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


def main(argv: Sequence[str], place: Workplace) -> int:
    """Run one session with a job for each node and check, and return the exit status."""
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
    return run.session(words, own, conclude)


def conclude(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the bad nodes, and return the exit status."""
    ran = selections.ran(cases)
    # Verdicts on containers and an ended session are not defects of nodes.
    broken = [case for case in ran if case.result == "fail" and not case.rows]
    lines = [f"{_node(case)}: {case.application} failed: {first_line(case.fail_reason)}" for case in broken]
    lines += described(peers.outliers(readings(ran)))
    for line in [*lines, *problems]:
        say(line)
    names = {case.partition: {_node(other) for other in ran if other.partition == case.partition} for case in ran}
    few = [name for name, nodes in names.items() if len(nodes) < peers.FEWEST]
    for name in few:
        say(f"{name} has {count(len(names[name]), 'node')}: to name one takes {peers.FEWEST}")
    if not (lines or problems or few):
        say(f"no node is worse than its peers, of {count(sum(map(len, names.values())), 'node')}")
    return BROKEN if lines else NOT_JUDGED if problems or few or not ran else FINE


def readings(cases: Sequence[Case]) -> Iterator[Reading]:
    """Yield the values of each node, bare and in containers."""
    for case in cases:
        for row in case.rows:
            axes = [value for axis, value in case.axes.items() if not axis.startswith(".")]
            name = " ".join([case.application, *axes, row.metric])
            for side, value in ((BARE, row.baseline), (CONTAINER, row.subject)):
                if is_finite(value) and value > 0:
                    yield Reading(_node(case), (case.place, name, side), value, row.better)


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


def _node(case: Case) -> str:
    return case.axes.get(NODE) or str(case.provenance.get("host") or "")
