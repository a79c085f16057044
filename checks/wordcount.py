"""Word Count over MPI: reading a big text, counting its words, merging the counts.

D12.6 section 8.1.5, HLRS: the text of the MPI 3.0 standard on one and two nodes, no essential difference in a
container, and poor scaling; the seed's program was in Java, with Open MPI's bindings. This one is the project's own, in
C. Its text is made here, or the seed's with ``-S WordCount.published=<path to the standard as text>``; either is
repeated until it has ``megabytes``. Each rank drops its part from the memory before it reads, so the text comes from
its file system; read-ahead goes on while words are counted, and ``seconds_reading`` is what a rank still waits.

As in D12.6 section 9, overhead is the wall-clock time (from before MPI's launcher starts, to the end of the program)
less that of the computation, and memory is told. Efficiency is the share of all ranks' time that is spent on reading
and counting; the seed's, T(1) / (n T(n)), comes from the cases with other numbers of ranks in the full axes.
"""

import shlex

import reframe as rfm
from containercheck import Answer, ContainerCheck, Figure, sites
from reframe.core.builtins import parameter, run_after, run_before, variable


def seconds(name, **facts):
    """Return a time that the program prints."""
    return Figure(f"seconds_{name}", rf"^seconds {name} (\S+)", "s", better="lower", **facts)


@rfm.simple_test
class WordCount(ContainerCheck):
    """The project's own program."""

    descr = "Word Count over MPI"
    executable = "wordcount"
    executable_opts = ["text.txt"]
    source = "wordcount/wordcount.c"
    recipe = "wordcount"
    run_limit = 300
    #: Ranks on a node; 0 for one on each core.
    ranks = parameter([0, *sites.core_counts()], loggable=True)
    #: Size of the text that is counted, in units of 10^6 bytes.
    megabytes = variable(int, value=500)

    rank_count = Answer("ranks", r"^ranks (\d+)")
    figures = [
        seconds("compute"),
        # As a difference: what a merge takes on few ranks is too short to be compared by ratio.
        seconds("merging", compare="difference", tolerance=0.2),
        seconds("reading", compare="difference", tolerance=1.0),
        seconds("counting"),
        # One second: what the seed saw at best, with version 3.3.0 of the runtime (D12.6 section 9.2.1).
        seconds("overhead", compare="difference", tolerance=1.0, absent=r"^overhead unknown"),
        Figure("efficiency", r"^efficiency (\S+) %", "%"),
        Figure("memory", r"^memory (\S+) MB", "MB", better="lower", compare="difference", tolerance=64.0),
    ]
    answers = [Answer(name, rf"^{name} (\d+)") for name in ("bytes", "words", "distinct", "checksum")]
    answers += [Answer("most_frequent", r"^word \d+ (\S+: \d+)", words=True)]

    @run_after("init")
    def choose_ranks(self):
        """Every core in a plain run."""
        self.ranks_per_node = self.ranks or None
        self.full_only = self.ranks > 0

    @run_before("run")
    def make_text(self):
        """Make the text, once for all rounds; it is too big to be kept."""
        program = shlex.quote(f"{self.prefix}/src/text/make_text.py")
        source = f"--source {shlex.quote(self.published)}" if self.published else "--megabytes 64 --compounds 0.02"
        self.input_commands = [f"python3 {program} {source} --fill {self.megabytes} text.txt"]
        self.postrun_cmds = ["rm -f text.txt"]
        self.reset_commands = ["export RUN_BEGAN=$(date +%s.%N)"]
