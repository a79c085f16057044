"""GROMACS's log."""

import pytest
from containercheck.node.outputs.reading import read_answer
from gromacs import GROMACS
from saved import OUTPUTS, figures, problems, why


def test_rate_and_energies_are_read():
    assert figures(GROMACS, "gromacs/passing", ranks=2) == {"rate": 5.534}
    energies = [read_answer(answer, OUTPUTS / "gromacs/passing") for answer in GROMACS.answers]
    assert energies == pytest.approx([-2.70066e05, -2.69e05], rel=2e-3)


def test_a_system_that_explodes_has_no_rate():
    (problem,) = problems(GROMACS, "gromacs/failing", ranks=2)
    assert "figure rate not found" in problem


def test_fewer_ranks_are_noticed():
    (problem,) = problems(GROMACS, "gromacs/passing", ranks=4)
    assert "ran with 2 ranks instead of 4" in problem


def test_an_input_of_a_newer_version_is_named():
    """An image of Debian 12 reads no input that Debian 13's GROMACS made."""
    said = why("gromacs/newer_input")
    assert said == "Fatal error: reading tpx file (topol.tpr) version 137 with version 127 program"
