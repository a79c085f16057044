"""The output of the two programs that use TensorFlow."""

from argparse import Namespace

import pytest
from conftest import run_of
from containercheck.job.outputs import reading
from containercheck.job.verdict import builds
from ramp import RAMP
from saved import OUTPUTS, metrics, problems
from tensorflow_cnn import TensorFlow, TensorFlowCNN


def test_images_per_second_are_a_mean_of_three():
    assert metrics(TensorFlowCNN, "tensorflow_cnn/passing", ranks=1) == pytest.approx(
        {"images_per_second": (2.531 + 4.338 + 4.881) / 3}
    )


def test_a_network_that_learns_nothing_fails():
    """Saved from a run that trained one batch only."""
    found = problems(TensorFlowCNN, "tensorflow_cnn/failing", ranks=1)
    assert any("images_per_second not found" in problem or "loss_falls is 'no'" in problem for problem in found)


def test_the_unet_tells_overhead_from_computation():
    assert metrics(RAMP, "ramp/passing", ranks=1) == pytest.approx(
        {
            "outside": 19.340,
            "outside_ratio": 19.340,
            "compute": 27.607,
            "memory": 655.3,
            "io": 55.9,
            "seconds_unet": 51.491,
        }
    )


def test_a_kernel_that_counts_no_io_gives_no_metric(tmp_path):
    (io,) = (metric for metric in RAMP.metrics if metric.name == "io")
    (tmp_path / "out").write_text("io unknown: [Errno 2] No such file or directory: '/proc/self/io'\n")
    assert reading.read_metric(io, tmp_path) is None


def test_a_unet_that_learns_nothing_fails():
    """Saved from a run of one epoch, whose loss has nothing to fall from."""
    assert any("loss_falls is 'no'" in problem for problem in problems(RAMP, "ramp/failing", ranks=1))


def device_of(gpus, directory):
    """Return the answer about the device on nodes with these GPUs, and what is wrong with it in itself."""
    check = Namespace(num_gpus_per_node=gpus, answers=[])
    TensorFlow.require_gpus(check)
    (answer,) = check.answers
    device = reading.read_answer(answer, directory)
    return device, reading.problem(answer, device)


def test_a_gpu_that_the_nodes_have_must_be_used(tmp_path):
    (tmp_path / "out").write_text("TensorFlow 2.21.0, Keras 3.15.1, GPU, 2 threads\n")
    assert device_of(1, tmp_path) == ("GPU", None)
    assert device_of(1, OUTPUTS / "ramp/passing") == ("CPU", "device is 'CPU', must be 'GPU'")


def test_without_gpus_bare_and_container_have_to_use_the_same_device():
    assert device_of(None, OUTPUTS / "tensorflow_cnn/passing") == ("CPU", None)


#: The line of TensorFlow 1.10, as D12.6 section 7.3 has it.
OLD_LINE = (
    "tensorflow/core/platform/cpu_feature_guard.cc:141] Your CPU supports instructions that this TensorFlow binary was "
    "not compiled to use: AVX2 AVX512F FMA\n"
)


def builds_of(tmp_path, **lines):
    """Return what runs say of their builds, by side; with a line in place of the saved one, which is on top."""
    saved = (OUTPUTS / "tensorflow_cnn/passing/err").read_text()
    for side, line in lines.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "out").write_text((OUTPUTS / "tensorflow_cnn/passing/out").read_text())
        (tmp_path / side / "err").write_text(saved if line is None else line)
    return builds.read(TensorFlow.identity, [run_of(side, side) for side in lines], tmp_path)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (None, "enable the following instructions: AVX2 FMA"),
        (OLD_LINE, "not compiled to use: AVX2 AVX512F FMA"),
        ("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n", ""),
    ],
)
def test_instructions_that_a_build_does_without_are_read(tmp_path, line, told):
    assert builds_of(tmp_path, baseline=line)["baseline"]["instructions"] == told


def test_a_container_whose_build_lacks_instructions_is_not_the_same_build(tmp_path):
    sides = builds_of(tmp_path, baseline="", subject=OLD_LINE)
    told = builds.difference(sides["baseline"], sides["subject"])
    assert told == "not the same build: 2.21.0 against 2.21.0 not compiled to use: AVX2 AVX512F FMA"
    assert builds.difference(sides["subject"], sides["subject"]) == ""
