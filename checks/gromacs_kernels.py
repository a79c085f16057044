"""Run GROMACS with one instruction set after the other, on one core.

D12.6 section 4.4.1: kernels of C, SSE2 and AVX_256 run like 1 : 4.9 : 6.1 on Ivy Bridge (figure 4.1). C, SSE2, AVX_256
and AVX2 run like 1 : 4.8 : 6.1 : 7.8 on Haswell (figure 4.2). The same kernels are as fast in a container as bare.
Each set needs a build: ``gmx_mpi_<set>`` (``gmx_<set>`` in D12.6), or ``gmx_mpi`` if it was built for that set. Every
build has plain C, but only for the non-bonded forces; in D12.6's build the rest is slower too.
"""

import reframe as rfm
from containercheck import Answer, ask_program, instruction_sets, partitions_with_instructions
from gromacs import LOG, RATE, SIMD, Dynamics
from reframe.core.builtins import parameter, run_after, run_before


@rfm.simple_test
class GROMACSKernels(Dynamics):
    """One instruction set on one core; the log must confirm it."""

    descr = "GROMACS, instruction sets on one core"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    simd = parameter(instruction_sets(), loggable=True)
    metrics = [RATE]
    ranks_per_node = 1
    full_only = True

    @run_after("init")
    def choose_machines(self):
        """Keep the partitions with the instruction set in their architecture."""
        partitions = partitions_with_instructions(self.simd)
        self.valid_systems = [name for name in self.valid_systems if name in partitions]

    @run_before("setup")
    def find_kernels(self):
        """Choose the build with the instruction set, or skip and name the builds that exist."""
        if self.simd == "C":
            confirmed = Answer("kernels", r"^Using (.+?) \d+x\d+ nonbonded", file=LOG, equals="plain C")
            self.env_vars["GMX_DISABLE_SIMD_KERNELS"] = "1"
        else:
            confirmed = Answer("kernels", SIMD, file=LOG, equals=self.simd)
        self.answers = [*self.answers, confirmed]
        if self.simd == "C" or not self.full:
            return
        programs = (f"gmx_mpi_{self.simd}", "gmx_mpi")
        sets = {name: ask_program(name, SIMD) for name in programs}
        self.executable = next((program for program, name in sets.items() if name == self.simd), self.executable)
        if any(sets.values()) and self.simd not in sets.values():
            there = sets["gmx_mpi"] or "none"
            self.skip_because(f"no GROMACS with {self.simd} kernels: gmx_mpi has {there}, no gmx_mpi_{self.simd}")
