"""Look at, read and import thousands of files of an image, and measure the cost of the runtime.

D12.6 section 9 compared the start times of containers between versions of the runtime. Later upgrades slowed down the
image's file system. With plain squashfuse 25 minutes became 2 h 50 (apptainer issue 665). Several threads made imports
25 % slower (squashfuse issue 121). A helper took half a core (apptainer issue 3272). Here a process on every core
works on the files, first with an empty page cache, then again. Bare works on files of the stage directory. The image is
a file, in memory, or unpacked.
"""

import reframe as rfm
from containercheck import Answer, ImagePlacement, Metric, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_before

TREE = "share/imagefiles"


def metric(cache, step, tolerance):
    """Return the metric for the seconds of the slowest process in a step, or for the processor time of all helpers."""
    pattern = rf"^{cache}: .*\b{step} (\S+) s"
    facts = {"tolerance": tolerance, "spread": 0.4 * tolerance}
    return Metric(
        f"{step}_{cache}", pattern, "s", better="lower", compare="difference", measures=("files", "start"), **facts
    )


@rfm.simple_test
class ImageFiles(SingleNodeCheck, ImagePlacement):
    """The same work in a process on every core."""

    descr = "files of the image: stat, read, import"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "imagefiles"
    executable_opts = ["use"]
    recipe = "imagefiles"
    source = "imagefiles/imagefiles.py"
    run_limit = 300
    seconds = 40
    work = Work("processes", min_amount=1, amount_per_core=1, fixed_seconds=4)

    # Twice the cost of Apptainer 1.4.5 without setuid, with squashfuse_ll, on a virtual machine with two cores.
    metrics = [
        metric(cache, step, tolerance)
        for cache, tolerances in (("cold", (0.25, 0.3, 0.4)), ("warm", (0.25, 0.35, 0.4, 0.7)))
        for step, tolerance in zip(("stat", "read", "import", "helpers"), tolerances)
    ]
    answers = [
        Answer("files", r"^found: files (\d+)"),
        Answer("bytes", r"^found: .*\bcontent (\d+)"),
        Answer("sum", r"^found: .*\bsum (\d+)"),
    ]

    @run_before("run")
    def start_on_every_core(self):
        """Make the files for the bare program, and let the measuring program start the command."""
        program = f"{self.python} {self.own('imagefiles/imagefiles.py')}"
        self.input_commands = [f"{program} make {TREE}"]
        places = (TREE, "image.sif", f"image.tree/usr/local/{TREE}")
        cold = " ".join(f"--cold {place}" for place in places)
        self.started_by = f"{program} measure --copies {self.site.cores or 2} {cold} --"
