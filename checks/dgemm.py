"""Run a matrix product in blocks that fit different caches, bare and in a container.

CHPCE, section "DGEMM": C = alpha A B + beta C on the cores of a node, for matrices of 4k, 8k, 10k, 16k and 32k. The
worst and the best block for the caches differ by up to 49.23 % on x86 and 37.57 % on OpenPOWER. CHPCE does not name
the blocks; here they are powers of two.

Expected: each block is as fast in a container as bare. A container changes pages and their alignment, not the
processor. The block of HPL and HPCC, 100 throughout in CHPCE, is a different one. Their DGEMM is the library's, which
chooses its blocks itself. So this check has a program of the project.
"""

import reframe as rfm
from containercheck import Answer, Metric, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_before


@rfm.simple_test
class DGEMM(SingleNodeCheck):
    """One product, by a thread on each core."""

    descr = "matrix product in blocks"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "dgemm"
    source = "dgemm/dgemm.c"
    # The MPI compiler adds MPI's library, which this program does not use.
    compile_options = ["-O3", "-fopenmp", "-Wl,--as-needed", "-lm"]
    recipe = "dgemm"
    threads = 0
    full_only = True
    #: Order of the matrices.
    size = parameter([4096, 8192, 10240, 16384, 32768], loggable=True)
    #: Rows and columns of a block: 2 KiB to 8 MiB.
    block = parameter([16, 32, 64, 128, 256, 512, 1024], loggable=True)
    run_limit = 300
    full_run_limit = 4 * 3600
    seconds = 80
    tolerance = 5.0

    metrics = [
        Metric("GFLOPS", r"^GFLOPS (\S+)", "GFLOPS", spread=10.0, of_peak=True, measures=("computing", "memory"))
    ]
    answers = [
        Answer("threads", r"^threads (\d+)"),
        Answer("order", r"^order (\d+)"),
        Answer("block", r"^block (\d+)"),
        # Another compiler may round sums differently.
        Answer("norm", r"^norm (\S+)", rtol=1e-9),
        Answer("residual", r"^residual (\S+)", at_most=16.0),
    ]

    @run_before("run")
    def choose_size(self):
        """Set the order of the matrices, and the block."""
        self.executable_opts = [str(self.size), str(self.block)]

    @property
    def work(self) -> Work:
        """The elements of a matrix: each takes 2 x order operations, and a core does 1e9 of them a second."""
        # Three matrices of 8 bytes an element; the program takes half a second to fill them.
        facts = {"fixed_seconds": 0.5, "bytes_per_unit": 3 * 8}
        return Work("matrix elements", self.size**2, parallel_seconds_per_unit=2 * self.size / 1e9, **facts)
