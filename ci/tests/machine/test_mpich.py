"""Images whose MPI is not the usual one: on a machine with MPICH all variants run, and PMI is of the side's own."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

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


@pytest.fixture
def slurm_site(site):
    """Describe a Slurm site with nodes of eight cores, with these extras."""
    nodes = {"num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1, "arch": "x86_64"}
    facts = {"scheduler": "slurm", "launcher": "srun", "processor": nodes}

    def describe(**extras):
        return site(**facts, container_platforms=[{"type": "Apptainer"}], extras={"release": "bookworm", **extras})

    return describe


def test_every_variant_runs_where_the_mpi_is_mpich(session, mpich_site):
    few = ["-S", "rounds=2", "-S", "strict_check=no"]
    result = session("-C", mpich_site, "-n", "PingPong", *few, checks=REPOSITORY / "checks" / "pingpong.py")
    assert result.status == 0, result.output
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant, "PingPong")
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


def test_start_up_loads_the_mpi_of_the_partitions_family(session, mpich_site):
    few = ["-S", "rounds=1", "-S", "strict_check=no"]
    result = session("-C", mpich_site, "-n", "StartUp%.*integrated", *few, checks=REPOSITORY / "checks" / "startup.py")
    case = result.case("integrated")
    assert case["result"] == "pass", case["fail_reason"] or case["skip_reason"]
    assert all("libmpich.so.12" in path for paths in case["provenance"]["mpi"].values() for path in paths)


def test_an_image_may_have_another_launcher(session, site, slurm_site):
    software = {"PingPong": {"image_launcher_options": ["--mca pml ob1"]}}
    settings = slurm_site(image_launcher="mpirun", software=software)
    result = session("-C", settings, "--dry-run", "-n", "PingPong", checks=REPOSITORY / "checks" / "pingpong.py")
    script = Path(result.case("generic")["stagedir"], "rfm_job.sh").read_text()
    assert re.search(r"^# bare runs: srun .*\./bin/pingpong", script, re.MULTILINE)
    assert re.search(r"^# generic runs: mpirun -np 8 --mca pml ob1 --bind-to core {{start}}", script, re.MULTILINE)
    integrated = Path(result.case("integrated")["stagedir"], "rfm_job.sh").read_text()
    assert not re.search("runs: mpirun", integrated)
    wrong = session(
        "-C", site(extras={"image_launcher": "mprun"}), "--dry-run", checks=REPOSITORY / "checks" / "pingpong.py"
    )
    assert wrong.status != 0
    assert "site file, extras of here:only: containercheck: image_launcher: no such launcher: 'mprun'" in wrong.output


def test_hydra_gets_none_of_the_options_of_another_launcher(session, slurm_site):
    settings = slurm_site(image_launcher_options=["--mpi=pmi2"])
    result = session("-C", settings, "--dry-run", "-n", "IMB", checks=REPOSITORY / "checks" / "imb.py")
    script = Path(result.case("generic")["stagedir"], "rfm_job.sh").read_text()
    assert "mpiexec.hydra -n 8" in script
    assert "--mpi=pmi2" not in script
