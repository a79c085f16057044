"""Figures of the time that ranks spend in MPI, for any check with MPI that asks for them: ``-S GROMACS.mpi_times=yes``.

A library of ours is preloaded into the ranks of each side (checks/src/mpitimes). D12.6 table 6.3 has seconds in MPI of
BT-MZ, D12.5 figure 22 the ranks of Amber, CHPCE profiles of HPCC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from containercheck.application.facts import Figure
from containercheck.node import contract


def _figure(name: str, pattern: str, unit: str, tolerance: float) -> Figure:
    """Return a figure that is compared as a difference: near zero a ratio says nothing."""
    return Figure(
        name, pattern, unit, better="lower", file=contract.MPI_TIMES, compare="difference", tolerance=tolerance
    )


#: The figures, of a program's last step with MPI.
FIGURES = (
    # The share is what is judged: seconds depend on how long a run is.
    _figure("mpi_seconds", r"^mpi (\S+) s", "s", 60.0),
    _figure("mpi_share", r"^mpi .*share (\S+) %", "%", 10.0),
    _figure("mpi_imbalance", r"^imbalance (\S+) %", "%", 10.0),
)


def figures(programs: Sequence[str]) -> list[Figure]:
    """Return the figures of a program, or of each of several that run beside each other.

    :param programs: their names; empty for a single program.
    """
    return [*FIGURES] if not programs else [_of_program(figure, name) for name in programs for figure in FIGURES]


def _of_program(figure: Figure, program: str) -> Figure:
    return replace(figure, name=f"{figure.name}_{program}", file=contract.mpi_times_file(program))
