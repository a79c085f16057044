"""Build an image, push it to a registry, pull it by its digest, convert and start it.

SANDIA section IV.A, figure 1: a container is built on a laptop, goes to a registry, is pulled on the supercomputer and
converted there. D12.6 sections 6.3 and 8.2: an image of OpenFOAM has 1.65 GB, and each runtime needs a conversion. Here
the job runs a registry on the node's loopback. So the metrics measure the tools and the disk, not a network. The image
is a shell, and files that compress to a half; ``-S ImageTransfer.megabytes=1574`` makes a larger one. Bare has nothing
to compare: the metrics are a series over the nights.
"""

import reframe as rfm
from containercheck import Answer, Metric, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_before, variable

STEPS = ("build", "push", "pull", "convert", "start")
#: The tree, the OCI image, the image pulled from the registry, and that of Apptainer or Singularity.
SIZES = ("tree", "built", "pulled", "image")


@rfm.simple_test
class ImageTransfer(SingleNodeCheck):
    """All steps in one run, with Debian's umoci, skopeo and docker-registry."""

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
        """Run all steps by the project's program; skip if the tools are missing."""
        program = f"{self.python} {self.own('imagetransfer/imagetransfer.py')}"
        self.input_commands = [f"{program} --look"]
        self.executable_opts = ["-c", f"{program} --megabytes {self.megabytes}"]

    @property
    def work(self):
        """The size of the tree: all steps together take 0.15 s a MiB, and keep four copies."""
        return Work("MiB", self.megabytes, fixed_seconds=2, serial_seconds_per_unit=0.15, bytes_per_unit=4 << 20)
