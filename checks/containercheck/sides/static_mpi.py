"""Sides that differ in how MPI is linked into a program: statically, or as a library that it loads (SANDIA section VI).

A program in a container must load its MPI, so that the host's can take its place: containers are not what that costs.
"""

from __future__ import annotations

from dataclasses import replace

from containercheck.node import contract
from containercheck.sides.sides import Side
from containercheck.sides.variants import VariantSides


class StaticMpiSides(VariantSides):
    """One program of ours, linked twice: ``class MyCode(StaticMpiSides, ContainerCheck)``.

    The program that loads its MPI is compared with the one that has it in itself; neither is in a container. The check
    sets ``static_mpi``.
    """

    @property
    def side_count(self) -> int:
        """Number of sides in a round."""
        return 2

    def sides(self) -> list[Side]:
        """Return the program with its MPI in itself, as the measure, and the one that loads it."""
        dynamic = self._program(self.prepared.provision.program)
        # No process of it has a library by which its MPI could be identified.
        static = replace(dynamic, executable=dynamic.executable + contract.STATIC, mpi=None)
        launcher, environ = self._launcher(), self.prepared.site_software.environ
        measure = Side(contract.BASELINE, "static MPI", static, launcher, environment=environ)
        judged = Side(contract.SUBJECT, "dynamic MPI", dynamic, launcher, environment=environ)
        return [measure, judged.changed(compared_with=measure.name)]
