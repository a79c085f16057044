"""The output of the two programs that use TensorFlow."""

import pytest
from ramp import RAMP
from saved import figures, problems
from tensorflow_cnn import TensorFlowCNN


def test_images_per_second_are_a_mean_of_three():
    assert figures(TensorFlowCNN, "tensorflow_cnn/passing", ranks=1) == pytest.approx(
        {"images_per_second": (20.003 + 20.478 + 28.750) / 3}
    )


def test_a_network_that_learns_nothing_fails():
    """Saved from a run that trained one batch only."""
    found = problems(TensorFlowCNN, "tensorflow_cnn/failing", ranks=1)
    assert any("images_per_second not found" in problem or "loss_falls is 'no'" in problem for problem in found)


def test_the_unet_tells_overhead_from_computation():
    assert figures(RAMP, "ramp/passing", ranks=1) == pytest.approx(
        {"outside": 4.109, "compute": 8.125, "memory": 672.1, "seconds_unet": 13.416}
    )


def test_a_unet_that_learns_nothing_fails():
    """Saved from a run of one epoch, whose loss has nothing to fall from."""
    assert any("loss_falls is 'no'" in problem for problem in problems(RAMP, "ramp/failing", ranks=1))
