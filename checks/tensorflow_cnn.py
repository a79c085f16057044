"""Train convolutional networks in TensorFlow: instruction sets, and the threads of one process.

D12.6 section 7.3, CINECA MARCONI A3: images per second of five networks, with batches of 32 and 64 synthetic ImageNet
images, mean of three. The container, TensorFlow's own 1.10, was clearly slower than the build on the machine: it lacked
AVX2, AVX512F and FMA. From PyPI both sides have the same portable build, and must be as fast; a site's own build shows
the loss. TensorFlow prints the instructions that it was not compiled to use; these are compared. Nodes with NVIDIA GPUs
get PyPI's build with CUDA. Other GPUs need a build of the site: a run that uses no GPU there fails.
"""

import reframe as rfm
from containercheck import STDERR, Answer, Identity, Metric, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Operations of a training step for one image, in units of 10^9: three times the published forward passes.
GFLOP = {"AlexNet": 4.3, "GoogLeNet": 9, "InceptionV3": 34, "ResNet-50": 24, "VGG16": 93}
#: Device that computes, CPU or GPU.
DEVICE = r"^TensorFlow .*, (CPU|GPU), \d+ threads"
#: Message with the processor's instructions that a build does not use: that of 1.10 in D12.6, and today's.
WITHOUT = r"(?:not compiled to use|enable the following instructions): "


class TensorFlow(SingleNodeCheck):
    """The common base of the checks that run the project's programs with TensorFlow."""

    executable = "python"
    requirements = "tensorflow/requirements.txt"
    recipe = "tensorflow"
    threads = 0
    gpu = True

    identity = [
        Identity("version", r"^TensorFlow (\S+), Keras"),
        # Empty for a build that uses all instructions, so that such a build differs from others.
        Identity("instructions", rf"(\A(?![\s\S]*{WITHOUT})|{WITHOUT}[A-Z0-9_. ]+)", file=STDERR),
    ]

    @run_before("run")
    def require_gpus(self):
        """Require GPUs if the node has any; otherwise require the same device for bare and container."""
        facts = {"equals": "GPU"} if self.num_gpus_per_node else {"words": True}
        self.answers = [Answer("device", DEVICE, **facts), *self.answers]


@rfm.simple_test
class TensorFlowCNN(TensorFlow):
    """Training with the project's own program: one batch, again and again."""

    descr = "TensorFlow, convolutional networks on synthetic ImageNet"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    sourcesdir = "src/tensorflow"
    run_limit = 1800
    seconds = 140
    network = parameter(["AlexNet", "GoogLeNet", "InceptionV3", "ResNet-50", "VGG16"], loggable=True)
    batch = parameter([32, 64], loggable=True)
    plain = {"network": "AlexNet", "batch": 32}
    #: Batches in each repetition, and their number. D12.6 has the mean of three repetitions. With one, rounds spread as
    #: far on a virtual machine (3.8 and 3.7 %), and take 20 s in place of 27 s.
    batches = variable(int, value=1)
    repeats = variable(int, value=1)

    # On a virtual machine, eight rounds spread by 11 % in turn, and by 5.7 % when both sides run at the same time.
    gains_by_duet = True
    metrics = [Metric("images_per_second", r"^images/s (\S+)$", "images/s", reduce="mean", spread=4.0, duet=True)]
    answers = [
        Answer("loss_falls", r"^loss falls: (\w+)", equals="yes"),
        # Seeded, but other instructions or threads round sums in another order.
        Answer("first_loss", r"^loss of the first batch (\S+)", rtol=0.01),
        Answer("parameters", r": (\d+) parameters"),
    ]

    @run_after("init")
    def choose_network(self):
        """Set network and batch size, as D12.6 varied them."""
        options = f"--network {self.network} --batch {self.batch} --steps {self.batches} --repeats {self.repeats}"
        self.executable_opts = ["cnn.py", *options.split()]

    @property
    def work(self) -> Work:
        """The images of all batches, one of them untimed; a core does 40 GFLOPS; one batch is in memory."""
        batches = 1 + self.repeats * self.batches
        times = {"fixed_seconds": 6, "parallel_seconds_per_unit": GFLOP[self.network] / 40}
        return Work("images", self.batch * batches, **times, bytes_per_unit=1.4e8 / batches, bytes_per_node=2.5e9)
