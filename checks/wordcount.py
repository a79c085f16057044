"""Run Word Count over MPI, which reads a big text, counts its words, and merges the counts.

D12.6 section 8.1.5, HLRS: the text of the MPI 3.0 standard on one and two nodes, no essential difference in a
container, and poor scaling; its program was in Java, with Open MPI's bindings. This one is the project's own, in C.
Its text is made here, or that of D12.6 with ``-S WordCount.published=<path to the standard as text>``; either is
repeated until it has 500 MB, or 32 MB for each core where there are more than 16. Each rank drops its part from the
memory before it reads, so the text comes from its file system; read-ahead goes on while words are counted, and
``seconds_reading`` is what a rank still waits.

What D12.6 section 9 calls overhead, the wall-clock time (from before MPI's launcher starts, to the end of the program)
less that of the computation, is ``seconds_outside`` here; memory is a metric too. Efficiency is the share of all
ranks' time that is spent on reading and counting; D12.6's, T(1) / (n T(n)) of figure 8.12, is the report's efficiency
over cores, from the cases with other numbers of ranks in the full axes.
"""

import shlex

import reframe as rfm
from containercheck import RUN_BEGAN, Answer, ContainerCheck, Metric, RanksPerNode, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable


def time_of(name, **facts):
    """Return the metric for a time that the program prints."""
    return Metric(f"seconds_{name}", rf"^seconds {name} (\S+)", "s", better="lower", **facts)


@rfm.simple_test
class WordCount(ContainerCheck, RanksPerNode):
    """The words of a text, counted by the project's own program."""

    descr = "Word Count over MPI"
    tags = {"io"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "wordcount"
    executable_opts = ["text.txt"]
    source = "wordcount/wordcount.c"
    recipe = "wordcount"
    run_limit = 300
    seconds = 70
    reset_commands = [RUN_BEGAN]
    #: Size of the text that is counted, in units of 10^6 bytes; 0 for what follows from the cores.
    megabytes = variable(int, value=0)

    rank_count = Answer("ranks", r"^ranks (\d+)")
    metrics = [
        time_of("compute", scaling="strong", spread=15.0),
        # As a difference: on few ranks a merge takes 10 to 30 ms, and a text that is read ahead 0.1 to 0.3 s.
        time_of("merging", compare="difference", tolerance=0.1),
        time_of("reading", compare="difference", tolerance=0.5),
        time_of("counting", spread=18.0, duet=True),
        # Mostly the start of the container, 0.15 to 0.3 s here; D12.6 section 9.2.1 saw one second at best, of RAMP.
        time_of("outside", compare="difference", tolerance=0.7, not_applicable_if=r"^outside unknown"),
        Metric("efficiency", r"^efficiency (\S+) %", "%", spread=15.0),
        Metric("memory", r"^memory (\S+) MB", "MB", better="lower", compare="difference", tolerance=16.0),
    ]
    answers = [Answer(name, rf"^{name} (\d+)") for name in ("bytes", "words", "distinct", "checksum")]
    answers += [Answer("most_frequent", r"^word \d+ (\S+: \d+)", words=True)]

    @run_before("run")
    def make_text(self):
        """Make the text once, for all rounds; it is too big to be kept."""
        published = f"--source {shlex.quote(self.published_path)}"
        source = published if self.published_path else "--megabytes 64 --compounds 0.02"
        self.input_commands = [
            f"{self.python} {self.own('text/make_text.py')} {source} --fill {round(self.amount)} text.txt"
        ]
        self.postrun_cmds = ["rm -f text.txt"]

    @property
    def work(self) -> Work:
        """The size of the text: a core counts 100 MB a second, and one process makes 250 MB a second."""
        size = (self.megabytes,) if self.megabytes else (500, 32, 4096)
        return Work("megabytes", *size, fixed_seconds=0.5, parallel_seconds_per_unit=0.01, setup_seconds_per_unit=0.004)

    @property
    def amount(self):
        """The size for the nodes' cores: with fewer ranks on them, the text is the same."""
        return self.work.amount((self.site.cores or 1) * self.num_nodes)
