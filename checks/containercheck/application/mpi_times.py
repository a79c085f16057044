"""Figures of the time that ranks spend in MPI, for any check with MPI that asks for them: ``-S GROMACS.mpi_times=yes``.

A library of ours is preloaded into the ranks of each side (checks/src/mpitimes). D12.6 table 6.3 has seconds in MPI of
BT-MZ, D12.5 figure 22 the ranks of Amber, CHPCE profiles of HPCC.
"""

from __future__ import annotations

from containercheck.application.facts import Figure
from containercheck.node import contract

#: Share of the ranks' time in MPI and imbalance are compared in points: near zero a ratio says nothing.
_POINTS = {"better": "lower", "file": contract.MPI_TIMES, "compare": "difference"}
#: The figures, of a program's last step with MPI.
FIGURES = (
    Figure("mpi_seconds", r"^mpi (\S+) s", "s", **{**_POINTS, "tolerance": 1.0}),
    Figure("mpi_share", r"^mpi .*share (\S+) %", "%", **{**_POINTS, "tolerance": 10.0}),
    Figure("mpi_imbalance", r"^imbalance (\S+) %", "%", **{**_POINTS, "tolerance": 10.0}),
)
