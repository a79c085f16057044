"""Build an image, push it to a registry, pull it by its digest, convert and start it.

SANDIA section IV.A, figure 1: a container is built on a laptop, goes to a registry, is pulled on the supercomputer and
converted there. D12.6 sections 6.3 and 8.2: an image of OpenFOAM has 1.65 GB, and each is converted for each runtime.
Here a registry of its own runs on the node's loopback for as long as the job: the metrics are the work of the tools and
of the disk, not of a network. The image is a shell and files that half compress; a larger one with ``-S
ImageTransfer.megabytes=1574``. There is nothing bare to compare with: the metrics are a series over the nights.
"""

import reframe as rfm
from containercheck import Answer, Metric, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_before, variable

STEPS = ("build", "push", "pull", "convert", "start")
#: The tree, the OCI image, what came back from the registry, and the image of Apptainer or Singularity.
SIZES = ("tree", "built", "pulled", "image")


@rfm.simple_test
class ImageTransfer(SingleNodeCheck):
    """All steps in one run, with umoci, skopeo and docker-registry, all of Debian."""

    descr = "an image built, pushed, pulled by digest, converted, started"
    tags = {"io"}
    num_nodes = parameter([1], loggable=True)
    variant = parameter(["bare"], loggable=True)
    executable = "sh"
    run_limit = 600
    #: Size of the tree that becomes an image, in units of 2^20 bytes.
    megabytes = variable(int, value=100)
    metrics = [Metric(f"seconds_{step}", rf"^seconds {step} (\S+)", "s", better="lower") for step in STEPS]
    metrics += [Metric(f"bytes_{name}", rf"^bytes {name} (\d+)", "bytes", better="lower") for name in SIZES]
    answers = [Answer("digest", r"^digest (\w+)", equals="kept")]

    @run_before("run")
    def run_transfer(self):
        """Skip without the tools, or let our program do all steps."""
        program = f"{self.python} {self.own('imagetransfer/imagetransfer.py')}"
        self.input_commands = [f"{program} --look"]
        self.executable_opts = ["-c", f"{program} --megabytes {self.megabytes}"]

    @property
    def work(self):
        """The size of the tree: all steps take 0.15 s for a MiB, and keep four copies of it."""
        return Work("MiB", self.megabytes, fixed_seconds=2, serial_seconds_per_unit=0.15, bytes_per_unit=4 << 20)
