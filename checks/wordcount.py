"""Run Word Count over MPI, which reads a big text, counts its words, and merges the counts.

D12.6 section 8.1.5, HLRS: the text of the MPI 3.0 standard on one and two nodes. There was no essential difference in a
container, and the scaling was poor. D12.6's program was in Java, with Open MPI's bindings; this one is the project's,
in C. The check makes a text, or takes that of D12.6: ``-S WordCount.published=<path to the standard as text>``. The
text is repeated to 200 MB, or beyond 6 cores to 32 MB a core. Each rank drops its part from memory before it reads, so
the text comes from its file system. Read-ahead goes on during the counting: ``seconds_reading`` is the remaining wait.

``seconds_outside`` is D12.6's overhead (section 9): the wall-clock time, from before MPI's launcher starts to the end
of the program, less that of the computation. Memory is a metric too. Efficiency is the share of all ranks' time that is
spent on reading and counting. D12.6's efficiency, T(1) / (n T(n)) of figure 8.12, is the report's efficiency over
cores; the full axes have its cases with other numbers of ranks.
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
    #: Size of the text, in units of 10^6 bytes; 0 chooses the size by the cores.
    megabytes = variable(int, value=0)

    rank_count = Answer("ranks", r"^ranks (\d+)")
    metrics = [
        time_of("compute", scaling="strong", spread=15.0),
        # As differences: on few ranks a merge takes 10 to 30 ms, and reading a text ahead 0.1 to 0.3 s.
        time_of("merging", compare="difference", tolerance=0.1),
        time_of("reading", compare="difference", tolerance=0.5),
        time_of("counting", spread=18.0, duet=True),
        # Mostly the start of the container, 0.15 to 0.3 s here; D12.6 section 9.2.1: one second at best, with RAMP.
        time_of("outside", compare="difference", tolerance=0.7, not_applicable_if=r"^outside unknown"),
        Metric("efficiency", r"^efficiency (\S+) %", "%", spread=15.0),
        Metric("memory", r"^memory (\S+) MB", "MB", better="lower", compare="difference", tolerance=16.0),
    ]
    answers = [Answer(name, rf"^{name} (\d+)") for name in ("bytes", "words", "distinct", "checksum")]
    answers += [Answer("most_frequent", r"^word \d+ (\S+: \d+)", words=True)]

    @run_before("run")
    def make_text(self):
        """Make the text once, for all rounds; delete it at the end, as it is big."""
        published = f"--source {shlex.quote(self.published_path)}"
        source = published if self.published_path else "--megabytes 64 --compounds 0.02"
        self.input_commands = [
            f"{self.python} {self.own('text/make_text.py')} {source} --fill {round(self.amount)} text.txt"
        ]
        self.postrun_cmds = ["rm -f text.txt"]

    @property
    def work(self) -> Work:
        """The size of the text: a core counts 100 MB a second; one process makes 250 MB a second.

        On a virtual machine, 40 rounds with 500 MB spread as far as with 200 MB, and took twice as long.
        """
        size = (self.megabytes,) if self.megabytes else (200, 32, 4096)
        return Work("megabytes", *size, fixed_seconds=0.5, parallel_seconds_per_unit=0.01, setup_seconds_per_unit=0.004)

    @property
    def amount(self):
        """The size, by the nodes' cores; fewer ranks have the same text."""
        return self.work.amount((self.site.cores or 1) * self.num_nodes)
