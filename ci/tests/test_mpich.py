"""A machine whose MPI is MPICH: its images are built with MPICH, and all variants run, with the real applications."""

from __future__ import annotations

import os
import shutil

import pytest
from conftest import REPOSITORY

#: Of Debian's MPICH, beside its Open MPI.
COMMANDS = ("mpicc", "mpirun")


@pytest.fixture
def mpich_site(site, tmp_path):
    """Describe this machine as one whose mpirun and mpicc are MPICH's."""
    programs = tmp_path / "mpich"
    programs.mkdir()
    for name in COMMANDS:
        found = shutil.which(f"{name}.mpich")
        if found is None:
            pytest.skip(f"no {name}.mpich here (ci/setup installs mpich)")
        # Not a link: Hydra looks for its proxy beside the name that it is called by.
        (programs / name).write_text(f'#!/bin/sh\nexec {found} "$@"\n')
        (programs / name).chmod(0o755)
    return site(env_vars=[["PATH", f"{programs}:{os.environ['PATH']}"]], extras={"mpi": "mpich"})


def test_every_variant_runs_where_the_mpi_is_mpich(session, mpich_site):
    few = ["-S", "rounds=2", "-S", "strict_check=no"]
    result = session("-C", mpich_site, "-n", "PingPong", *few, checks=REPOSITORY / "checks" / "pingpong.py")
    assert result.status == 0, result.output
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", case["fail_reason"] or case["skip_reason"]
        for side, libraries in case["provenance"]["mpi"].items():
            # Of the host, where integrated has it, and else of the image.
            host = "/host/" if (variant, side) == ("integrated", "subject") else "/usr/"
            assert all(path.startswith(host) and "libmpich.so.12" in path for path in libraries), case["provenance"]


def test_a_recipe_for_open_mpi_alone_is_a_skip(session, mpich_site):
    result = session(
        "-C", mpich_site, "-n", "OpenFOAM%.*generic", "-S", "rounds=1", checks=REPOSITORY / "checks" / "openfoam.py"
    )
    case = result.case("generic", "OpenFOAM")
    assert case["skip_reason"].startswith("no image: openfoam.def is for Open MPI only"), result.output
