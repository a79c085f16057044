"""The documents' figures in their order, each with ours of this night: whether the shape agrees, or why there is none.

A shape agrees where every overhead that was measured says what the document says: *as fast* (the overhead is within
what is accepted, and not because a reference expects it), *slower* or *faster* (its interval is on that side of zero).
It differs where one says the opposite. Of a check that compares nothing, the answers or the steps themselves are what a
document says: its cases have to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from containercheck.report.page import states
from containercheck.report.page.wording import Table, count, finite
from containercheck.results.cases import Case
from containercheck.results.row import PASS, Row

#: What a document says of a container, or of another side, against the one that it is compared with.
AS_FAST, SLOWER, FASTER = "as fast", "slower", "faster"
#: What it says where nothing is compared: all works, or is, as it says.
WORKS = "works"
#: Largest overhead in percent that a reference may expect of a container that is as fast: a check's default tolerance.
MOST = 5.0
#: Outcomes.
AGREES, DIFFERS, OPEN, NOT_RUN, NOT_HAD = "agrees", "differs", "not certain", "not run", "none here"
HEADINGS = ("document", "figure", "shows", "check", "shape", "from")


@dataclass(frozen=True)
class Shape:
    """A figure or table of a document.

    :ivar document: its short name.
    :ivar place: figure, table or section.
    :ivar shows: what it shows.
    :ivar check: the check that repeats it; empty where none can.
    :ivar says: one of the words above.
    :ivar variant: variant whose overheads count; empty for any.
    :ivar nodes: fewest nodes of cases that count.
    :ivar figures: beginnings of the names of figures that count; empty for all.
    :ivar subject: word in the label of the sides that count; empty for all.
    :ivar without: why there is no figure of ours.
    """

    document: str
    place: str
    shows: str
    check: str = ""
    says: str = AS_FAST
    variant: str = ""
    nodes: int = 1
    figures: tuple[str, ...] = ()
    subject: str = ""
    without: str = ""


#: In the documents' order.
SHAPES = (
    Shape("D12.6", "section 4.4.1", "GROMACS kernels, bare and in containers", "GROMACSKernels"),
    Shape("D12.6", "section 4.4.3", "GROMACS over nodes without the fabric", "GROMACS", SLOWER, "generic", 2),
    Shape("D12.6", "section 4.4.4", "GROMACS on GPUs over nodes", "GROMACSHybrid", SLOWER, "generic", 2),
    Shape("D12.6", "section 4.5", "an image for a newer processor ends at once", "NewerProcessor", WORKS),
    Shape("D12.6", "figure 5.1", "WRF over nodes", "WRF", AS_FAST, "integrated"),
    Shape("D12.6", "figures 6.5 to 6.7, 6.10 to 6.13", "Alya over nodes", "Alya", AS_FAST, "integrated"),
    Shape("D12.6", "figure 6.8, table 6.3", "BT-MZ in mixes of ranks and threads", "BTMZ", AS_FAST, "integrated"),
    Shape("D12.6", "figure 6.9", "HPCG in mixes of ranks and threads", "HPCG", AS_FAST, "integrated"),
    Shape("D12.6", "figures 7.1, 7.2", "CNNs, an image without the processor's instructions", "TensorFlowCNN", SLOWER),
    Shape("D12.6", "figures 7.3, 7.4", "Quantum ESPRESSO over nodes", "QuantumEspresso"),
    Shape("D12.6", "figure 7.5", "one MPI against another", "QuantumEspressoMPI", SLOWER, subject="openmpi"),
    Shape("D12.6", "figures 8.4, 8.5", "Ping Pong between all cores", "PingPong", AS_FAST, "integrated"),
    Shape("D12.6", "figure 8.6", "OpenFOAM, up to 4 % faster in the container", "OpenFOAM"),
    Shape("D12.6", "figures 8.7 to 8.9", "Palabos over ranks and two nodes", "Palabos"),
    Shape("D12.6", "figures 8.10, 8.11", "PACE3D, efficiency and dispersion", "PACE3D"),
    Shape("D12.6", "figure 8.12", "Word Count over ranks", "WordCount"),
    Shape("D12.6", "figure 8.13", "Airhead over ranks", "SemanticSpaces"),
    Shape("D12.6", "figures 9.1 to 9.4", "start of a job in a container", "StartUp", SLOWER, figures=("start",)),
    Shape("D12.6", "figures 9.5, 9.6", "time and memory of RAMP", "RAMP"),
    Shape("D12.6", "figure 9.7", "DB12 under versions of the runtime", "DB12"),
    Shape("MIPT", "section 3", "HPL over sizes of the matrix", "HPL"),
    Shape(
        "MIPT",
        "section 3",
        "HPL with fabric libraries that do not fit",
        without="not built: an image broken on purpose",
    ),
    Shape("SANDIA", "figure 1", "an image's way over a registry", "ImageTransfer", WORKS, "bare"),
    Shape("SANDIA", "figure 2", "bandwidth with the host's MPI", "IMB", AS_FAST, "integrated", figures=("bandwidth",)),
    Shape("SANDIA", "figure 2", "bandwidth with the image's MPI", "IMB", SLOWER, "generic", 2, ("bandwidth_peak",)),
    Shape("SANDIA", "figure 3", "latency with the host's MPI", "IMB", AS_FAST, "integrated", figures=("latency",)),
    Shape("SANDIA", "figure 4", "Allreduce of 8 bytes", "IMB", AS_FAST, "integrated", figures=("allreduce",)),
    Shape("SANDIA", "figure 5", "HPCG over nodes, the image's MPI", "HPCG", SLOWER, "generic", 2),
    Shape("SANDIA", "figure 5", "HPCG in KVM and on EC2", without="no virtual machine, and no EC2, at hand"),
    Shape("D12.5", "figure 11", "BT-MZ on a socket, bare and in containers", "BTMZCollocation", AS_FAST, "integrated"),
    Shape(
        "D12.5",
        "figures 14, 18, 20, 21",
        "cores lent after the end of a program",
        "Collocation",
        FASTER,
        "bare",
        figures=("seconds_whole", "busiest"),
        subject="post-mortem",
    ),
    Shape(
        "D12.5",
        "figures 13, 17, 18",
        "the same policies in containers",
        "Collocation",
        AS_FAST,
        figures=("seconds", "busiest"),
        subject="integrated",
    ),
    Shape(
        "D12.5",
        "figure 19",
        "TALP that moves cores",
        without="that prototype is no part of DLB 3, whose report is read",
    ),
    Shape(
        "D12.5",
        "section 3.3.1",
        "Quantum ESPRESSO with DLB, as fast as without",
        "QuantumEspressoDLB",
        AS_FAST,
        "bare",
        figures=("seconds_whole",),
        subject="isolation",
    ),
    Shape("D12.5", "figure 22", "time of each rank of Amber", "Amber"),
    Shape(
        "D12.5",
        "section 3.3.2",
        "Amber with DLB, as fast as without",
        "AmberDLB",
        AS_FAST,
        "bare",
        figures=("seconds_whole",),
        subject="isolation",
    ),
    Shape("D12.5", "section 4", "what containers of a node share", "Isolation", WORKS),
    Shape("CHPCE", "compute, memory, interconnect", "HPCC over processes", "HPCC", AS_FAST, "generic"),
    Shape("CHPCE", "section DGEMM", "DGEMM over sizes of the block and the matrix", "DGEMM"),
    Shape("CHPCE", "figures 18, 19", "IOzone, random write and strided read", "IOzone"),
    Shape("CHPCE", "table 4 and below", "memory of a container", "StartUp", SLOWER, figures=("memory",)),
    Shape("CHPCE", "all", "virtual machines", without="no virtualisation: a virtual machine would be emulated"),
)


def table(cases: Sequence[Case]) -> Table:
    """Return the table of all figures of the documents, with what the cases of a night say."""
    rows = tuple((shape.document, shape.place, shape.shows, shape.check, *outcome(shape, cases)) for shape in SHAPES)
    agreeing = sum(row[4] == AGREES for row in rows)
    return Table(f"Figures of the documents: {agreeing} of {len(rows)} agree this night", HEADINGS, rows, len(HEADINGS))


def outcome(shape: Shape, cases: Sequence[Case]) -> tuple[str, str]:
    """Return whether the shape agrees, and from what that is known."""
    if shape.without:
        return NOT_HAD, shape.without
    of_check = [case for case in cases if case.application == shape.check]
    ran = [case for case in of_check if case.result != "skip" and _counts(shape, case)]
    skipped = next((case.reason for case in of_check if case.result == "skip"), "")
    not_run = (NOT_RUN, skipped.partition("\n")[0][:120])
    rows = [row for case in ran for row in case.rows if _is_meant(shape, row)]
    if ran and (shape.says == WORKS or not any(case.rows for case in ran)):
        return _works(shape, ran)
    if not rows:
        return not_run
    said = [_says(shape.says, row) for row in rows]
    from_ = f"{count(len(rows), 'overhead')}, {shape.says}: {sum(word is True for word in said)}"
    if False in said:
        return DIFFERS, f"{from_}; the opposite: {said.count(False)}"
    return (AGREES if None not in said else OPEN), from_


def _counts(shape: Shape, case: Case) -> bool:
    # What works is what a container does, unless the check is about something else.
    variants = shape.variant == case.variant if shape.variant else shape.says != WORKS or case.variant != "bare"
    return variants and case.nodes >= shape.nodes


def _works(shape: Shape, cases: Sequence[Case]) -> tuple[str, str]:
    """Return whether cases without anything that is compared are as a document says."""
    ended = [states.state(case) for case in cases]
    if states.FAIL in ended:
        return DIFFERS, f"{count(ended.count(states.FAIL), 'case')} of {len(ended)} failed"
    if states.UNMEASURED in ended:
        return OPEN, f"{count(ended.count(states.UNMEASURED), 'case')} of {len(ended)} ended before there was an answer"
    return (AGREES if shape.says == WORKS else OPEN), f"{count(len(ended), 'case')} passed, without a figure"


def _is_meant(shape: Shape, row: Row) -> bool:
    named = not shape.figures or row.figure.startswith(shape.figures)
    return named and finite(row.overhead) is not None and shape.subject in (row.subject_label or "")


def _says(word: str, row: Row) -> bool | None:
    """Tell whether a row says this word; None where it may."""
    low, high = finite(row.low), finite(row.high)
    if word == AS_FAST:
        return _is_as_fast(row, low, high)
    if low is None or high is None:
        return None
    if word == SLOWER:
        return True if low > 0 else False if high < 0 else None
    return True if high < 0 else False if low > 0 else None


def _is_as_fast(row: Row, low: float | None, high: float | None) -> bool | None:
    """Tell whether a row says that the container is as fast; None where it may be."""
    most = row.accepted[1] or 0.0
    if row.expected and (row.overhead_unit != "%" or most > MOST):
        # An overhead that a reference expects is accepted, and no tolerance.
        most = MOST if row.overhead_unit == "%" else 0.0
        accepted = row.verdict == PASS and high is not None and high <= most
    else:
        accepted = row.verdict == PASS
    return True if accepted else False if low is not None and low > most else None
