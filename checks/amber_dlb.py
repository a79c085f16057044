"""Run Amber's pmemd with and without DLB, which lends the cores of waiting ranks to others (D12.5 section 3.3.2).

MARCONI, Amber 16: 8 ranks of 6 threads on a node, time of the whole run. DLB made no difference, though every fourth
rank has several times the work of the others (figure 22). Program and input are the site's: see ``amber.py``.
"""

from dataclasses import replace

import reframe as rfm
from amber import ALL_STEPS, FIRST_ENERGY, MDOUT, RANKS, STEPS, VERSION, time_of
from collocation import Collocated
from containercheck import WHOLE, Metric
from reframe.core.builtins import parameter


@rfm.simple_test
class AmberDLB(Collocated):
    """The site's own program and input, on a whole node and as D12.5 ran it."""

    descr = "Amber pmemd with DLB"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "pmemd.MPI"
    recipe = "mpi"
    site_provides_input = True
    output_files = [MDOUT]
    # pmemd.MPI refuses to run with one rank.
    min_ranks = 2
    use_case = parameter(["one", *WHOLE], loggable=True)
    plain = {"use_case": "one"}
    policies = ["no_dlb", "isolation", "talp"]
    run_limit = 1800
    seconds = 600
    # The site's input may be of any size.
    work = None

    identity = [VERSION]
    rank_count = RANKS
    metrics = [
        *Collocated.metrics,
        Metric("rate", rf"{ALL_STEPS}\n.*\n\| +ns/day = +(\S+)", "ns/day", file=MDOUT),
    ]
    answers = [STEPS, FIRST_ENERGY]

    def time_of(self, name):
        """Return the metric for the seconds of the whole run, read from Amber's own file."""
        return time_of(f"seconds_{name}", "Master Total wall time:")

    def programs(self, programs):
        """Let the only program overwrite an older output; the site's options come last, and take priority."""
        return [replace(program, options=("-O", "-o", MDOUT, *self.executable_opts)) for program in programs]
