"""GROMACS's log."""

from argparse import Namespace

import pytest
from containercheck.job.outputs.reading import UnreadableError, read_answer
from gromacs import GROMACS
from gromacs_threads import GROMACSHybrid
from saved import OUTPUTS, metrics, problems, why


def test_rate_and_energies_are_read():
    assert metrics(GROMACS, "gromacs/passing", ranks=2) == {"rate": 5.534}
    energies = [read_answer(answer, OUTPUTS / "gromacs/passing") for answer in GROMACS.answers]
    assert energies == pytest.approx([-2.70066e05, -2.69e05], rel=2e-3)


def test_a_system_that_explodes_has_no_rate():
    (problem,) = problems(GROMACS, "gromacs/failing", ranks=2)
    assert "metric rate not found" in problem


def test_fewer_ranks_are_noticed():
    (problem,) = problems(GROMACS, "gromacs/passing", ranks=4)
    assert "ran with 2 ranks instead of 4" in problem


def test_an_input_of_a_newer_version_is_named():
    """An image of Debian 12 reads no input that Debian 13's GROMACS made."""
    said = why("gromacs/newer_input")
    assert said == "Fatal error: reading tpx file (topol.tpr) version 137 with version 127 program"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        # As its source writes them (taskassignment/reportgpuusage.cpp): no GPU was here to run it.
        ("On host node1 1 GPU auto-selected for this run.", 1),
        ("On host node1 4 GPUs user-selected for this run.", 4),
        ("On host node1 2 GPUs selected for this run.", 2),
    ],
)
def test_gpus_that_were_used_are_counted(tmp_path, line, count):
    (tmp_path / "md.log").write_text(f"{line}\nMapping of GPU IDs\n")
    check = Namespace(num_gpus_per_node=4, answers=[])
    GROMACSHybrid.require_gpus(check)
    assert read_answer(check.answers[0], tmp_path) == count
    # On processors it computes the same, and that is told.
    with pytest.raises(UnreadableError, match="answer gpus not found"):
        read_answer(check.answers[0], OUTPUTS / "gromacs/passing")


def test_without_gpus_none_is_required():
    check = Namespace(num_gpus_per_node=None, answers=[])
    GROMACSHybrid.require_gpus(check)
    assert check.answers == []
