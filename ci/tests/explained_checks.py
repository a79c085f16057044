"""A check that is slow for causes that the tests plant in its container: what the explanation has to find, and prove.

Its figure needs no clock: the program looks for what was planted, as its container has it, and counts.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Figure
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Counts 500, and more where something slows it: a percentage for each cause, which adds up.
PROGRAM = r"""
slower=0
case ${OPENBLAS_CORETYPE:-} in Prescott) slower=$((slower + 70)) ;; esac
case ${OMP_NUM_THREADS:-1} in 64) slower=$((slower + 40)) ;; esac
case ${MALLOC_ARENA_MAX:-} in 1) slower=$((slower + 50)) ;; esac
case ${OMPI_MCA_btl:-} in self,tcp) slower=$((slower + 60)) ;; esac
case ${UCX_TLS:-} in tcp) slower=$((slower + 60)) ;; esac
case ${LD_BIND_NOW:-} in 1) slower=$((slower + 30)) ;; esac
case ${PYTHONMALLOC:-} in debug) slower=$((slower + 30)) ;; esac
case ${GLIBC_TUNABLES:-} in *mmap_max=0*) slower=$((slower + 30)) ;; esac
case ${JAVA_TOOL_OPTIONS:-} in *Xint*) slower=$((slower + 90)) ;; esac
[ "$(df -Pk /dev/shm | awk 'END { print $2 }')" -ge 65536 ] || slower=$((slower + 45))
[ "$(nproc)" -ge 2 ] || slower=$((slower + 80))
[ ! -e /planted-by-nobody-knows ] || slower=$((slower + 35))
case ${NOBODY_KNOWS:-} in 1) slower=$((slower + 35)) ;; esac
echo "count $((500 + 5 * slower + $$ % 3))"
echo "sum 42"
"""


@rfm.simple_test
class Explained(ContainerCheck):
    """A serial program that counts what slows it."""

    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    recipe = "mpi"
    executable = "sh"
    ranks_per_node = 1
    quiet = 0.0
    seconds = 30
    #: What the figure is said to depend on; empty for all.
    slowed_by = variable(str, value="")
    answers = [Answer("sum", r"^sum (\d+)")]

    @run_after("init")
    def declare(self):
        """Declare the figure, by what it depends on."""
        measures = tuple(self.slowed_by.split())
        self.figures = [Figure("count", r"^count (\d+)", "steps", better="lower", spread=2.0, measures=measures)]

    @run_before("run")
    def plant(self):
        """Write the program."""
        with open(f"{self.stagedir}/count.sh", "w") as stream:
            stream.write(PROGRAM)
        self.executable_opts = ["count.sh"]
