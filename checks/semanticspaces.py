"""Run Airhead Semantic Spaces, Random Indexing, which finds the words that occur in the same contexts.

D12.6 section 8.1.5, HLRS: no significant difference in a container, and a somewhat better efficiency than Word Count's.
D12.6 ran it in parallel with MPI, by a Java program that is not public. Here the package itself runs, from Maven
Central, with its threads. The check makes the text: its words have topics, and the nearest words of a word are those of
its topic. The check is bound by memory: a vector of 1024 integers for each of 9400 words.

The random vectors are given (see index.sh), so any number of threads gives the same vectors, to the last bit. So the
nearest words, among the 200 most frequent ones, must be the same everywhere. Efficiency is T(1) / (n T(n)) of one run,
with the start of Java and the writing of the space. The report's efficiency over cores (figure 8.13) comes from the
full axes, which have other numbers of threads.
"""

import reframe as rfm
from containercheck import Answer, Metric, SingleNodeCheck, Step, Work, core_counts
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Elements of a word's vector.
VECTOR_LENGTH = 1024
#: Frequent words of one topic; its words end in b.
WORDS = ("hinozeb", "venetapub", "vicihob")


def time_of(name, **facts):
    """Return the metric for a time that the script prints."""
    return Metric(f"seconds_{name}", rf"^seconds {name} (\S+)", "s", better="lower", spread=14.0, **facts)


@rfm.simple_test
class SemanticSpaces(SingleNodeCheck):
    """Airhead Semantic Spaces 2.0.4."""

    descr = "Airhead Semantic Spaces, Random Indexing"
    tags = {"memory"}
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "java"
    debian = ["maven", "default-jre-headless"]
    artifacts = "semanticspaces/jars.txt"
    recipe = "semanticspaces"
    run_limit = 300
    seconds = 100
    tolerance = 10.0
    #: Threads that index; 0 for one on each core.
    workers = parameter([0, *core_counts()], loggable=True)
    plain = {"workers": 0}
    #: Size of the text, in units of 10^6 bytes.
    megabytes = variable(float, int, value=2.5)

    metrics = [
        time_of("indexing", scaling="strong"),
        time_of("indexing_serial"),
        time_of("query"),
        Metric("efficiency", r"^efficiency (\S+) %", "%", spread=14.0),
    ]
    answers = [
        Answer("threads_agree", r"^threads \d+: (.*)", equals="nearest words equal"),
        Answer("nearest_words", r"^nearest (\S+ \S+)", words=True),
        Answer("nearest_topics", r"^nearest \S+ \w*(\w) ", equals="b"),
        Answer("similarities", r"^nearest \S+ \S+ (\S+)", reduce="sum", rtol=1e-9),
    ]

    @run_after("init")
    def choose_workers(self):
        """Set the threads that index."""
        self.threads = self.workers

    @run_before("run")
    def make_input(self):
        """Make the text and the random vectors (from one line with all words), once for all rounds."""
        java = f"{self.executable} -cp 'jars/*' edu.ucla.sspace.mains.RandomIndexingMain"
        self.input_commands = [
            f"{self.python} {self.own('text/make_text.py')} --megabytes {self.megabytes} --words words.txt text.txt",
            f"mkdir -p unused && {java} --docFile=words.txt --vectorLength={VECTOR_LENGTH} --overwrite=true "
            "--saveVectors=vectors.map unused",
            r"tr -s ' ' '\n' <text.txt | LC_ALL=C sort | uniq -c | sort -k1,1nr -k2 | awk 'NR <= 200 { print $2 }' "
            ">candidates.txt",
            f"cp {self.own('semanticspaces/index.sh')} .",
        ]
        self.steps = [Step("run", f"sh index.sh {self.program} {self.threads} {VECTOR_LENGTH} {' '.join(WORDS)}")]
        self.postrun_cmds = ["rm -rf space unused"]

    @property
    def work(self) -> Work:
        """The size of the text: one thread takes 1.3 s to index a megabyte; then all threads index it again."""
        return Work(
            "megabytes",
            self.megabytes,
            fixed_seconds=1,
            serial_seconds_per_unit=1.3,
            parallel_seconds_per_unit=1.3,
            setup_seconds_per_unit=2,
            bytes_per_unit=4e8,
        )
