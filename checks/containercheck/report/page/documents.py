"""The figures and tables of the five documents as data: what each shows, and which check repeats it, or why none does.

The documents are D12.5, D12.6, MIPT, SANDIA and CHPCE, each by its sections. A statement is taken from a document's
text, for the figures themselves are pictures, whose values cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from containercheck.node.architectures import PUBLISHED_KERNELS
from containercheck.report.page.courses import FALLS, NODES, RISES, SIDES, VARIES, Course

#: What a document says of a container, or of another side, against the one that it is compared with.
AS_FAST, SLOWER, FASTER = "as fast", "slower", "faster"
#: What it says where nothing is compared: all works, or is, as it says.
WORKS = "works"


@dataclass(frozen=True)
class Shape:
    """A figure or table of a document.

    :ivar document: its short name.
    :ivar place: figure, table or section.
    :ivar shows: what it shows.
    :ivar check: the check that repeats it; empty where none can.
    :ivar says: one of the words above; empty where it says nothing of a container.
    :ivar variant: variant whose overheads count; empty for any.
    :ivar nodes: fewest nodes of cases that count.
    :ivar figures: beginnings of the names of figures that count; empty for all.
    :ivar subject: word in the label of the sides that count; empty for all.
    :ivar where: an axis, and the beginning of the values of it that count.
    :ivar system: the only system that it is said of; empty for any.
    :ivar course: what it says of a figure over an axis.
    :ivar value: figure whose values are shown, theirs and ours.
    :ivar theirs: numbers of the document that no reference has.
    :ivar note: what to know where the shape does not agree here.
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
    where: tuple[str, str] = ("", "")
    system: str = ""
    course: Course | None = None
    value: str = ""
    theirs: str = ""
    note: str = ""
    without: str = ""


#: Mixes of D12.5's tables 1 and 2, by the number of ranks.
_SOCKET = tuple(f"1 of {mix}" for mix in ("2x12", "4x6", "6x4", "8x3", "12x2"))
_NO_PICTURE = "a picture of a tracing tool, without numbers"

D12_5 = (
    Shape(
        "D12.5",
        "figure 9",
        "trace of BT-MZ's calls of MPI",
        without=f"{_NO_PICTURE}: -S BTMZ.mpi_times=yes has the seconds of each rank in MPI",
    ),
    Shape(
        "D12.5",
        "figure 11",
        "BT-MZ on a socket, with OpenMP",
        "BTMZCollocation",
        variant="integrated",
        subject="no DLB",
        figures=("seconds",),
        course=Course("seconds_program1", "use_case", FALLS, places=_SOCKET),
    ),
    Shape(
        "D12.5",
        "figure 11",
        "the same with OmpSs",
        without="D12.5 changed BT-MZ for OmpSs (section 3.2), and names no source of that",
    ),
    Shape(
        "D12.5",
        "figure 13",
        "two programs on a node, each policy in containers",
        "Collocation",
        figures=("seconds", "busiest"),
        subject="integrated",
    ),
    Shape(
        "D12.5",
        "figure 14",
        "two of BT-MZ, speed-up by isolation",
        "BTMZCollocation",
        FASTER,
        "bare",
        figures=("seconds_whole",),
        subject="isolation",
        where=("use_case", "2 of "),
        theirs="1.58 at most, for 8x3",
        course=Course("seconds_whole", "use_case", best="2 of 8x3", relative=True, subject="isolation"),
    ),
    Shape(
        "D12.5",
        "figure 15",
        "trace of BT-MZ's tasks",
        without=f"{_NO_PICTURE}: Collocation has the idle time of the cores, and the busiest of them",
    ),
    Shape(
        "D12.5",
        "figure 17",
        "five of BT-MZ, isolation",
        "BTMZCollocation",
        FASTER,
        "bare",
        figures=("seconds_whole",),
        subject="isolation",
        where=("use_case", "five"),
    ),
    Shape(
        "D12.5",
        "figures 18, 20, 21",
        "cores lent after the end of a program",
        "Collocation",
        FASTER,
        "bare",
        figures=("seconds_whole", "busiest"),
        subject="post-mortem",
        theirs="speed-up of a program 1.04 to 2.3",
        course=Course(
            "seconds_whole", SIDES, best="full sharing + post-mortem", relative=True, where=("use_case", "five")
        ),
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
        "Quantum ESPRESSO with DLB and without",
        "QuantumEspressoDLB",
        variant="bare",
        figures=("seconds_whole",),
        subject="isolation",
    ),
    Shape(
        "D12.5",
        "figures 22, 23",
        "time of each rank of Amber",
        without="profiles of Intel's tracing tool, every "
        "fourth rank 131 to 140 s, the others 35 to 71: -S Amber.mpi_times=yes has the seconds of each rank in MPI",
    ),
    Shape(
        "D12.5",
        "section 3.3.2",
        "Amber with DLB and without",
        "AmberDLB",
        variant="bare",
        figures=("seconds_whole",),
        subject="isolation",
    ),
    Shape(
        "D12.5",
        "sections 2.1, 4",
        "what containers of a node share",
        "Isolation",
        WORKS,
        theirs="/tmp and /dev/shm are shared",
    ),
)

_TWO_MPIS, _NO_INTEL_MPI = "Intel MPI about 5 times faster than Open MPI", "here it is MPICH and Open MPI"

D12_6 = (
    Shape(
        "D12.6",
        "figures 4.1, 4.2",
        "GROMACS kernels on a core",
        "GROMACSKernels",
        theirs="1 : 4.8 : 6.1 : 7.8 on Haswell, 1 : 4.9 : 6.1 on Ivy Bridge",
        course=Course("rate", "simd", RISES, places=PUBLISHED_KERNELS, ratios=True),
    ),
    Shape("D12.6", "figure 4.3", "GROMACS over OpenMP threads", "GROMACSThreads"),
    Shape(
        "D12.6",
        "figure 4.4",
        "GROMACS over nodes without the fabric",
        "GROMACS",
        SLOWER,
        "generic",
        2,
        theirs="bare is 4 times faster on 16 nodes",
        course=Course("rate", NODES, RISES, up_to=8, side="generic"),
    ),
    Shape(
        "D12.6",
        "figure 4.5",
        "GROMACS on GPUs over nodes",
        "GROMACSHybrid",
        SLOWER,
        "generic",
        2,
        theirs="bare is 1.5 to 1.8 times faster",
    ),
    Shape(
        "D12.6",
        "section 4.5",
        "an image for this processor against the portable one",
        "GROMACSNative",
        FASTER,
        subject="native",
        theirs="1.6 times: SSE2 has 62 % of the speed of AVX2",
    ),
    Shape("D12.6", "section 4.5", "an image for a newer processor", "NewerProcessor", WORKS, theirs="it does not run"),
    Shape("D12.6", "figure 5.1", "WRF over nodes", "WRF", variant="integrated"),
    Shape(
        "D12.6",
        "section 6.4.2",
        "an overlay network between containers on several nodes",
        without="a runtime beside another is measured by ci/acceptance, not at night (images/README.md)",
    ),
    Shape("D12.6", "figures 6.5 to 6.7", "Alya in mixes of ranks and threads", "Alya", variant="integrated"),
    Shape(
        "D12.6",
        "figure 6.8, table 6.3",
        "BT-MZ in mixes of ranks and threads",
        "BTMZ",
        variant="integrated",
        theirs="112x1, a rank on each core",
        course=Course("seconds", "ranks", best="all", where=("size", "C")),
    ),
    Shape(
        "D12.6",
        "figure 6.9",
        "HPCG in mixes of ranks and threads",
        "HPCG",
        variant="integrated",
        theirs="112x1 16.6 % slower bare than in the container, unexplained",
    ),
    Shape(
        "D12.6",
        "figure 6.10",
        "Alya FSI",
        without="two programs at once, and Alya has no public source: a site's "
        "own case, CFD, stands for it in the next rows",
    ),
    Shape(
        "D12.6",
        "figure 6.10",
        "Alya over nodes, the host's MPI",
        "Alya",
        variant="integrated",
        nodes=2,
        course=Course("step", NODES, FALLS),
    ),
    Shape(
        "D12.6",
        "figure 6.10",
        "Alya beyond 32 nodes, the image's MPI",
        "Alya",
        SLOWER,
        "generic",
        64,
        figures=("step", "solver"),
        theirs="hung on 256 nodes",
    ),
    Shape(
        "D12.6",
        "figures 6.11, 6.12",
        "Alya's solver over nodes, the image's MPI",
        "Alya",
        SLOWER,
        "generic",
        2,
        figures=("solver",),
        course=Course("solver", NODES, RISES, side="generic"),
    ),
    Shape("D12.6", "figure 6.13", "Alya where there is no fabric", "Alya", figures=("step",), system="thunderx"),
    Shape(
        "D12.6",
        "figures 7.1, 7.2",
        "CNNs, an image without the processor's instructions",
        "TensorFlowCNN",
        SLOWER,
        note="from PyPI, both sides are the same portable build: it takes a site's own",
    ),
    Shape("D12.6", "figures 7.3, 7.4", "Quantum ESPRESSO over nodes", "QuantumEspresso", variant="integrated"),
    Shape(
        "D12.6",
        "figure 7.5",
        "one MPI against another: Open MPI first",
        "QuantumEspressoMPI",
        FASTER,
        subject="mpich",
        theirs=_TWO_MPIS,
        note=_NO_INTEL_MPI,
    ),
    Shape(
        "D12.6",
        "figure 7.5",
        "the same where the partition's MPI is MPICH",
        "QuantumEspressoMPI",
        SLOWER,
        subject="openmpi",
        theirs=_TWO_MPIS,
        note=_NO_INTEL_MPI,
    ),
    Shape(
        "D12.6",
        "figures 8.4, 8.5",
        "Ping Pong between nodes",
        "PingPong",
        variant="integrated",
        nodes=2,
        figures=("latency_between_nodes", "bandwidth_between_nodes"),
    ),
    Shape(
        "D12.6",
        "figures 8.4, 8.5",
        "dispersion of Ping Pong within a socket, larger",
        "PingPong",
        SLOWER,
        figures=("latency_dispersion_within_socket", "bandwidth_dispersion_within_socket"),
    ),
    Shape("D12.6", "figure 8.6", "OpenFOAM", "OpenFOAM", theirs="up to 4 % faster"),
    Shape("D12.6", "figures 8.7 to 8.9", "Palabos over ranks and two nodes", "Palabos"),
    Shape("D12.6", "figures 8.10, 8.11", "PACE3D, efficiency and dispersion", "PACE3D"),
    Shape("D12.6", "figure 8.12", "Word Count over ranks", "WordCount"),
    Shape("D12.6", "figure 8.13", "Airhead over ranks", "SemanticSpaces"),
    Shape(
        "D12.6",
        "sections 8.2, 9.1.1",
        "size of an image: OpenFOAM 1.65 GB, RAMP 4 GB",
        without="nothing is compared: the sizes of ours stand under Provenance",
    ),
    Shape(
        "D12.6",
        "figures 9.1, 9.2, 9.4",
        "RAMP, time outside of the computation",
        "RAMP",
        SLOWER,
        figures=("outside",),
        theirs="1 to 2 s, 5 to 12 %",
    ),
    Shape(
        "D12.6",
        "figure 9.3",
        "the same, with the image on a shared file system",
        "RAMP",
        "",
        theirs="0.5 s more than in memory",
        course=Course("outside", "image_in", RISES, places=("ram", "shared"), side="generic"),
    ),
    Shape("D12.6", "section 9.2.1", "start of a container by itself", "StartUp", SLOWER, figures=("start",)),
    Shape("D12.6", "figure 9.5", "RAMP, time of the computation", "RAMP", figures=("compute",)),
    Shape("D12.6", "figure 9.6", "RAMP, memory", "RAMP", figures=("memory",)),
    Shape("D12.6", "figure 9.7", "DB12 under versions of the runtime", "DB12", value="DB12"),
)

MIPT = (
    Shape(
        "MIPT",
        "section 3",
        "HPL over sizes of the matrix",
        "HPL",
        variant="integrated",
        course=Course("HPL", "size", RISES),
    ),
    Shape(
        "MIPT",
        "section 3",
        "HPL with fabric libraries that do not fit",
        without="4.7 and 10.1 in place of 203.6 "
        "and 315.7 GFLOPS: it takes a machine with InfiniBand. An explanation names libraries of the fabric that an "
        "image lacks, not such that are of another version",
    ),
)

SANDIA = (
    Shape(
        "SANDIA",
        "section IV.A, figure 1",
        "an image's way over a registry",
        "ImageTransfer",
        WORKS,
        "bare",
        theirs="built, pushed, pulled, converted, started",
    ),
    Shape(
        "SANDIA",
        "figure 2",
        "bandwidth with the host's MPI",
        "IMB",
        variant="integrated",
        figures=("bandwidth",),
        value="bandwidth_peak",
    ),
    Shape(
        "SANDIA",
        "figure 2",
        "bandwidth with the image's MPI",
        "IMB",
        SLOWER,
        "generic",
        2,
        ("bandwidth_peak",),
        value="bandwidth_peak",
    ),
    Shape(
        "SANDIA",
        "figure 3",
        "latency with the host's MPI",
        "IMB",
        variant="integrated",
        figures=("latency",),
        value="latency_8B",
    ),
    Shape(
        "SANDIA",
        "figure 3",
        "latency with the image's MPI",
        "IMB",
        SLOWER,
        "generic",
        2,
        ("latency_8B",),
        value="latency_8B",
    ),
    Shape(
        "SANDIA",
        "figure 3",
        "MPI that a program loads, against one linked into it",
        "PingPongStatic",
        SLOWER,
        nodes=2,
        figures=("latency_between_nodes",),
        theirs="small messages 11.3 % faster with MPI linked statically (about 200 ns)",
    ),
    Shape("SANDIA", "figure 4", "Allreduce of 8 bytes", "IMB", variant="integrated", figures=("allreduce",)),
    Shape(
        "SANDIA",
        "figure 5",
        "HPCG over nodes, the host's MPI",
        "HPCG",
        variant="integrated",
        figures=("HPCG",),
        theirs="within 0.5 % on one node",
    ),
    Shape(
        "SANDIA",
        "figure 5",
        "HPCG over nodes, the image's MPI",
        "HPCG",
        SLOWER,
        "generic",
        2,
        ("HPCG",),
        theirs="18.1 % at scale",
        course=Course("HPCG", NODES, FALLS, side="generic", relative=True),
    ),
    Shape(
        "SANDIA",
        "figures 2 to 5",
        "IMB on EC2, HPCG on EC2 and in KVM",
        without="no EC2 at hand, and no virtualisation: a virtual machine would be emulated",
    ),
)

_NO_FABRIC = "its x86 nodes have Ethernet only; where there is a fabric, a generic container loses it"

CHPCE = (
    Shape(
        "CHPCE",
        "section Security",
        "capabilities of a user in a container",
        "Isolation",
        WORKS,
        theirs="no more than outside",
    ),
    Shape("CHPCE", "table 4", "start and end of a container", "StartUp", SLOWER, figures=("start", "end")),
    Shape(
        "CHPCE",
        "below table 4",
        "memory of a container",
        "StartUp",
        SLOWER,
        figures=("memory",),
        theirs="15.4 MB more than bare",
    ),
    Shape(
        "CHPCE",
        "figure 2, table 6",
        "HPL over processes",
        "HPCC",
        figures=("HPL",),
        value="HPL_of_peak",
        theirs="0.13 % on x86 (abstract); 63.71 and 86.50 % of the peak on x86 and OpenPOWER",
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figure 3, tables 8 to 12",
        "time in MPI by function",
        without="profiles of a tracing tool (TAU): "
        "-S HPCC.mpi_times=yes has the seconds of each rank and function in MPI",
    ),
    Shape(
        "CHPCE",
        "figures 4, 5, table 7",
        "DGEMM over processes",
        "HPCC",
        figures=("SingleDGEMM", "StarDGEMM"),
        course=Course("StarDGEMM", "ranks", FALLS),
    ),
    Shape(
        "CHPCE",
        "section DGEMM",
        "DGEMM over sizes of the block",
        "DGEMM",
        "",
        theirs="49.23 % on x86, 37.57 % on OpenPOWER at worst",
        course=Course("GFLOPS", "block", VARIES),
    ),
    Shape(
        "CHPCE",
        "figures 6, 7",
        "FFT over processes",
        "HPCC",
        figures=("StarFFT", "MPIFFT"),
        course=Course("StarFFT", "ranks", FALLS),
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figures 8, 9",
        "STREAM over processes",
        "HPCC",
        figures=("SingleSTREAM", "StarSTREAM"),
        value="SingleSTREAM_Triad",
        course=Course("StarSTREAM_Triad", "ranks", FALLS),
    ),
    Shape(
        "CHPCE",
        "figure 10",
        "counters of the processor during STREAM",
        without="by PAPI, which no check uses: "
        "counters are those of the processor, and nodes rarely let users read them",
    ),
    Shape(
        "CHPCE",
        "figures 11, 12",
        "RandomAccess over processes",
        "HPCC",
        figures=("StarRandom", "MPIRandom"),
        course=Course("MPIRandomAccess", "ranks", RISES, up_to=24),
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figure 13",
        "PTRANS over processes",
        "HPCC",
        figures=("PTRANS",),
        course=Course("PTRANS", "ranks", RISES, up_to=24),
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figures 14, 15",
        "latency over processes",
        "HPCC",
        figures=("AvgPingPongLatency", "RandomRingLatency"),
        theirs="less than 3 % (abstract)",
        course=Course("RandomRingLatency", "ranks", RISES),
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figures 16, 17",
        "bandwidth over processes",
        "HPCC",
        figures=("AvgPingPongBandwidth", "RandomRingBandwidth"),
        theirs="less than 2 % (abstract)",
        course=Course("RandomRingBandwidth", "ranks", FALLS),
        note=_NO_FABRIC,
    ),
    Shape(
        "CHPCE",
        "figures 18, 19",
        "IOzone, random write and strided read",
        "IOzone",
        figures=("random_write", "stride_read"),
        theirs="less than 2 % (abstract)",
    ),
    Shape(
        "CHPCE",
        "all",
        "virtual machines",
        without="no virtualisation: a virtual machine would be emulated. (Of HPL "
        "CHPCE has 20 and 4.83 % in its abstract, 21 and 4.82 % in its text)",
    ),
)

#: In the order of the documents, and of the sections of each.
SHAPES = (*D12_5, *D12_6, *MIPT, *SANDIA, *CHPCE)
