"""Run GROMACS for a machine's own instruction set against the portable one: the cost of portability.

D12.6 section 4.4.1, figure 4.2: kernels of C, SSE2, AVX_256 and AVX2 run like 1 : 4.8 : 6.1 : 7.8 on a core of Haswell
(1 : 4.9 : 6.1 without AVX2 on Ivy Bridge, figure 4.1). SSE2 reaches 62 % of AVX2; section 4.5 calls this a penalty.
Images are portable (SSE4.1 on x86). A second image is built from Debian's source for the partition's processors, and
judged against the portable one. It is not judged against bare, which may have either set; bare makes the input. Both
logs must confirm their instruction set.
"""

import reframe as rfm
from containercheck import Answer, Candidate, Unavailable, native_instructions, portable_instructions
from gromacs import LOG, RATE, SIMD, Dynamics
from reframe.core.builtins import parameter, run_after


@rfm.simple_test
class GROMACSNative(Dynamics):
    """Two images on one core, as in D12.6; the image for the machine takes half an hour to build, once."""

    descr = "GROMACS, an image for the partition's processors against the portable one"
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    metrics = [RATE]
    ranks_per_node = 1
    full_only = True
    # A round has three runs; the first is not the slowest.
    seconds = 200

    def candidates(self):
        """Return the two images; other checks compare runtimes and ready images."""
        if super().candidates():
            raise Unavailable("this check compares its own two images only")
        native = Candidate("native", arguments={"KERNELS": native_instructions(self.site)})
        return Candidate("portable", arguments={}), native

    @run_after("setup")
    def confirm_kernels(self):
        """Require each image's own instruction set in its log."""
        sets = {"portable": portable_instructions(self.site), "native": native_instructions(self.site)}
        confirmed = [Answer(f"{side}_kernels", SIMD, LOG, equals=name, side=side) for side, name in sets.items()]
        self.answers = [*self.answers, *confirmed]
