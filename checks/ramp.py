"""Run RAMP astro, a U-Net that learns to find overlapping galaxies: GPU or processor, memory, input and output.

D12.6 section 9.2, CC-IN2P3: 12000 images train, 4000 validate, 4000 evaluate, 2 GB in /dev/shm; 26 runs each. On
V100 the container image was in RAM or on a shared file system, on K80 on a shared one. D12.6's overhead, the
wall-clock time less that of the computation, is ``outside`` here. A container added 1 to 2 s to it (5 to 12 % of
bare's: ``outside_ratio``), and the shared file system 0.5 s more. Memory, I/O and computing time stayed the same. The
results show mean errors, sigma / sqrt(n), next to the metrics.

The pinned TensorFlow is for processors. For nodes with GPUs the site names another build (tensorflow_cnn.py).

The size of D12.6 is ``-S RAMP.images=20000 -S RAMP.pixels=128 -S RAMP.depth=3 -S RAMP.rounds=26``.
"""

import shlex

import reframe as rfm
from containercheck import RUN_BEGAN, Answer, ImagePlacement, Metric, Step, Work, seconds_of
from reframe.core.builtins import parameter, run_before, variable
from tensorflow_cnn import TensorFlow

#: Wall-clock time less that of the computation.
OUTSIDE = r"^seconds outside (\S+)"


def metric(name, pattern, unit, tolerance):
    """Return a metric to which a container adds a constant, independent of the computation's length."""
    return Metric(name, pattern, unit, better="lower", compare="difference", tolerance=tolerance)


@rfm.simple_test
class RAMP(TensorFlow, ImagePlacement):
    """A U-Net, by the project's own program in Keras."""

    descr = "RAMP astro, a U-Net"
    tags = {"io"}
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    sourcesdir = "src/ramp"
    run_limit = 3600
    # A pair takes 20 s, mostly the import, which is measured.
    seconds = 115
    reset_commands = [RUN_BEGAN]
    # Most of a run is the start of TensorFlow, 8 s. A core takes 0.1 s for an image, and 0.01 s to make it.
    work = Work(
        "images",
        min_amount=0,
        amount_per_core=20,
        fixed_seconds=8,
        parallel_seconds_per_unit=0.1,
        setup_seconds_per_unit=0.01,
        bytes_per_unit=5e4,
        bytes_per_node=1e9,
    )
    #: Images for training, validation and evaluation together (3:1:1), 0 for 20 a core; then their edge in pixels.
    images = variable(int, value=0)
    pixels = variable(int, value=64)
    epochs = variable(int, value=2)
    #: Levels of the U-Net below the first.
    depth = variable(int, value=2)
    published_values = {"images": 20000, "pixels": 128, "depth": 3}

    metrics = [
        # D12.6 measured two seconds, with images that the kernel mounted. A runtime without setuid reads TensorFlow's
        # libraries through FUSE: this takes 0.3 to 2.5 s more, and on slower cores 4 to 11 s.
        metric("outside", OUTSIDE, "s", tolerance=12.0),
        # The same in percent of bare's, as in figures 9.2 to 9.4. The seconds above are three times bare's.
        Metric("outside_ratio", OUTSIDE, "s", better="lower", tolerance=300.0),
        Metric("compute", r"^seconds compute (\S+)", "s", better="lower", tolerance=10.0, spread=6.0),
        metric("memory", r"^memory (\S+) MB", "MB", tolerance=32.0),
        # Bytes that Python and the U-Net read and write, without the runtime's own reads of the image. Measured: 55.9
        # MB in two bare runs, and 55.7 in a container.
        Metric("io", r"^io (\S+) MB", "MB", better="lower", spread=1.0, not_applicable_if=r"^io unknown"),
        seconds_of("unet", compare="difference", tolerance=15.0),
    ]
    answers = [
        Answer("loss_falls", r"^loss falls: (\w+)", equals="yes"),
        Answer("first_loss", r"^epoch 1: loss ([\d.]+)", rtol=0.05),
        Answer("intersection_over_union", r"^intersection over union (\S+)", atol=0.1),
    ]

    @run_before("run")
    def make_images(self):
        """Make the images once, for all rounds."""
        size = f"--images {self.images or round(self.amount)} --size {self.pixels}"
        self.input_commands = [f"{self.executable} galaxies.py {size} galaxies.npz"]
        self.postrun_cmds += ["rm -f galaxies.npz"]
        options = ["--epochs", str(self.epochs), "--depth", str(self.depth)]
        self.steps = [Step("unet", f"{self.program} {shlex.join(['unet.py', *options, 'galaxies.npz'])}")]
