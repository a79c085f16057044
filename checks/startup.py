"""Start and end a container, and measure its time and memory: the cost of the runtime itself.

D12.6 section 9, CC-IN2P3: one to two seconds to start; half a second more with the image on a shared file system; less
with newer versions of the runtime. CHPCE table 4 and the text below it: start-up and tear-down of "echo hello world",
and 15.4 MB of proportional set size more than bare. Here the program is ``cat``, alone and on every core at once. Bare
takes next to nothing, so the difference counts, not the ratio. The integrated variant loads the host's MPI library on
both sides, because loading it may take longer than starting a container.

An axis has causes of slow starts that centres reported later: a working directory with many files (singularity issue
5389), a large limit of open files (opensciencegrid/docs issue 345), and many binds.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, ImagePlacement, ImageRelease, Metric, Work, partitions_with_gpus
from reframe.core.builtins import parameter, run_after, run_before, variable

MANY_FILES, MANY_BINDS = 20000, 50
#: Scatter of rounds, with a margin. Measured on a quiet virtual machine: starts 0.003 to 0.012 s, memory 0.16 MB, and
#: 0.6 MB while other processes keep all cores busy.
SPREADS = {"start": 0.03, "end": 0.01, "memory": 1.0}


def metric(name, copies, word, unit, tolerance):
    """Return a metric from the line about one copy, or about several."""
    pattern, facts = rf"^{copies}: .*\b{word} (\S+) {unit}", {"tolerance": tolerance, "spread": SPREADS[word]}
    return Metric(name, pattern, unit, better="lower", compare="difference", measures=("start",), **facts)


@rfm.simple_test
class StartUp(ContainerCheck, ImagePlacement, ImageRelease):
    """Start and end of ``cat``, in the base image of all others."""

    descr = "container start-up and tear-down, memory"
    tags = {"smoke"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    recipe = "mpi"
    executable = "cat"
    preloads_mpi = True
    ranks_per_node = 1
    run_limit = 120
    num_nodes = parameter([1], loggable=True)
    # One copy, and one on every core at once, each several times.
    work = Work("rounds of starts", min_amount=5, fixed_seconds=2, serial_seconds_per_unit=1, bytes_per_core=30e6)
    #: Circumstances of a start: a working directory of many files, the largest limit of open files, many binds, or the
    #: runtime's option for GPUs (--nv, --rocm), which binds the driver's libraries.
    circumstances = parameter(["usual", "many_files", "open_files", "many_binds", "gpus"], loggable=True)
    plain = {"circumstances": "usual"}
    #: Starts of each kind in a run; their median counts.
    repeats = variable(int, value=5)

    # Twice the cost of Apptainer 1.4.5 without setuid on two virtual machines with two cores: a start takes 0.12 to
    # 0.24 s, an end 5 to 20 ms, memory 29 MB alone and 20 MB with other copies. D12.6 section 9.2.1 measured one second
    # at best, with version 3.3.0; CHPCE 15 MB.
    metrics = [
        metric("start", "one", "start", "s", tolerance=0.5),
        metric("end", "one", "end", "s", tolerance=0.05),
        metric("memory", "one", "memory", "MB", tolerance=48.0),
        metric("start_several", "several", "start", "s", tolerance=0.5),
        metric("end_several", "several", "end", "s", tolerance=0.05),
        metric("memory_several", "several", "memory", "MB", tolerance=36.0),
    ]
    answers = [Answer("copies", r"^several: copies (\d+)")]

    @run_after("init")
    def cross_no_axes(self):
        """Vary the circumstances with the usual image only, and use GPUs on nodes that have some."""
        is_usual_image = self.image_in == "shared" and self.image_release == "fitting"
        if self.circumstances != "usual" and not is_usual_image:
            self.valid_systems = []
        if self.circumstances == "gpus":
            self.gpu, with_gpus = True, partitions_with_gpus()
            self.valid_systems = [name for name in self.valid_systems if name in with_gpus]

    @run_before("run")
    def bring_about(self):
        """Create the circumstances on both sides; only the container has binds."""
        if self.circumstances == "many_files":
            self.input_commands = [f"seq -f file-%.0f {MANY_FILES} | xargs touch"]
        if self.circumstances == "open_files":
            self.reset_commands = ["ulimit -n $(ulimit -Hn)"]
        if self.circumstances == "many_binds" and self.contained:
            self.binds = [*self.binds, *(f"{self.stagedir}:/mnt/{number}" for number in range(MANY_BINDS))]

    @run_before("run")
    def start_on_every_core(self):
        """Let the measuring program start the command, one copy on each core."""
        options = f"--copies {self.site.cores or 2} --repeats {self.repeats}"
        self.started_by = f"{self.python} {self.own('startup/startup.py')} {options} --"
