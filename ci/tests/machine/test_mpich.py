"""Images whose MPI is not the usual one, or that have habits of their own: each variant runs with its own MPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY

#: Of Debian's MPICH, beside its Open MPI.
COMMANDS = ("mpicc", "mpirun")


@pytest.fixture
def mpich_site(site, tmp_path):
    """Describe this machine as one whose mpirun and mpicc are MPICH's, with these extras."""
    programs = tmp_path / "mpich"
    programs.mkdir()
    for name in COMMANDS:
        found = shutil.which(f"{name}.mpich")
        if found is None:
            pytest.skip(f"no {name}.mpich here (ci/setup installs mpich)")
        # Not a link: Hydra looks for its proxy beside the name that it is called by.
        (programs / name).write_text(f'#!/bin/sh\nexec {found} "$@"\n')
        (programs / name).chmod(0o755)
    variables = [["PATH", f"{programs}:{os.environ['PATH']}"]]
    return lambda **extras: site(env_vars=variables, extras={"mpi": "mpich", **extras})


@pytest.fixture
def slurm_site(site):
    """Describe a Slurm site with nodes of eight cores, with these extras."""
    nodes = {"num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1, "arch": "x86_64"}
    facts = {"scheduler": "slurm", "launcher": "srun", "processor": nodes}

    def describe(**extras):
        return site(**facts, container_platforms=[{"type": "Apptainer"}], extras={"release": "bookworm", **extras})

    return describe


@pytest.fixture
def openfoam(tmp_path):
    """Compile Debian's OpenFOAM for MPICH, and return the entry of a site file."""
    words = ["sh", str(REPOSITORY / "checks/src/openfoam/mpi-library"), "mpicxx.mpich", str(tmp_path)]
    if subprocess.run(words, capture_output=True, timeout=600).returncode:
        pytest.skip("apt has no sources of OpenFOAM here (deb-src)")
    return {"executable": "simpleFoam", "environ": {"LD_LIBRARY_PATH": str(tmp_path)}}


def test_every_variant_runs_where_the_mpi_is_mpich(session, mpich_site):
    runs_every_variant(session, mpich_site(), "PingPong")


@pytest.mark.long
def test_openfoam_runs_where_the_mpi_is_mpich(session, mpich_site, openfoam):
    runs_every_variant(session, mpich_site(software={"OpenFOAM": openfoam}), "OpenFOAM")


def runs_every_variant(session, settings, check):
    few = ["-S", "rounds=2", "-S", "strict_check=no"]
    checks = REPOSITORY / "checks" / f"{check.lower()}.py"
    result = session("-C", settings, "-n", f"^{check}%", *few, checks=checks)
    assert result.status == 0, result.output
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant, check)
        assert case["result"] == "pass", case["fail_reason"] or case["skip_reason"]
        for side, libraries in case["provenance"]["mpi"].items():
            # Of the host, where integrated has it, and else of the image.
            host = "/host/" if (variant, side) == ("integrated", "subject") else "/usr/"
            assert all(path.startswith(host) and "libmpich.so.12" in path for path in libraries), case["provenance"]


def test_a_recipe_for_open_mpi_alone_is_a_skip(session, mpich_site):
    # Debian's Trilinos is built for Open MPI: bare is a program of the site's.
    settings = mpich_site(software={"MueLu": {"executable": "/usr/bin/true"}})
    only = ["-n", "MueLu%.*generic", "-S", "rounds=1"]
    result = session("-C", settings, *only, checks=REPOSITORY / "checks" / "muelu.py")
    case = result.case("generic", "MueLu")
    assert case["skip_reason"].startswith("no image: muelu.def is for Open MPI only"), result.output


def test_an_image_with_its_own_mpi_is_started_with_options_of_its_own(session, slurm_site):
    settings = slurm_site(image_launcher_options=["--mpi=pmi2"])
    result = session("-C", settings, "--dry-run", "-n", "PingPong", checks=REPOSITORY / "checks" / "pingpong.py")
    assert result.status == 0, result.output

    def started(variant):
        script = Path(result.case(variant)["stagedir"], "rfm_job.sh").read_text()
        return re.findall(r"^# \w+ runs: srun (.*?)(?:\./bin/pingpong|{{start}})", script, re.MULTILINE)

    integrated = started("integrated")
    assert integrated and not any("--mpi=pmi2" in words for words in integrated)
    bare, *inside = started("generic")
    assert "--mpi=pmi2" not in bare and inside and all("--mpi=pmi2" in words for words in inside)
    assert all(words.count("--cpu-bind=cores") == 1 for words in (bare, *inside))
    # Hydra gets none of the options of another launcher.
    result = session("-C", settings, "--dry-run", "-n", "IMB", checks=REPOSITORY / "checks" / "imb.py")
    script = Path(result.case("generic")["stagedir"], "rfm_job.sh").read_text()
    assert "mpiexec.hydra -n 8" in script and "--mpi=pmi2" not in script
