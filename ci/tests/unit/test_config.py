"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import functools
import os
import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import REPOSITORY
from containercheck.site import sites
from reframe.core import config
from reframe.core.systems import System

FILES = sorted(path for path in (REPOSITORY / "config").glob("*.py") if path.stem not in ("common", "template"))

#: Checks of a plain run.
PLAIN = {
    "Alya",
    "Amber",
    "BTMZ",
    "DB12",
    "GROMACS",
    "HPCC",
    "HPCG",
    "HPL",
    "IMB",
    "IOzone",
    "ImageFiles",
    "MueLu",
    "OpenFOAM",
    "PACE3D",
    "Palabos",
    "PingPong",
    "QuantumEspresso",
    "RAMP",
    "SemanticSpaces",
    "StartUp",
    "TensorFlowCNN",
    "WRF",
    "WordCount",
}
CLUSTER = runpy.run_path(str(REPOSITORY / "config" / "virtual_cluster.py"))

#: Family of each partition's MPI, and where its document says so.
FAMILIES = {
    # D12.6 section 4.3: openmpi/2.1.6.
    "aris": {"fat": "openmpi", "gpu": "openmpi"},
    # D12.6 section 9 has no MPI: what is taken where nothing is said.
    "cc_in2p3": {"cpu": "openmpi", "k80": "openmpi", "v100": "openmpi"},
    # CHPCE, "DGEMM": MPIDI_CH3I_Progress, MPID_nem_tcp_connpoll.
    "chpce": {"x86": "mpich", "openpower": "mpich"},
    # Of no document; cray-mpich.
    "cray_ex": {"cpu": "mpich"},
    # D12.6 section 6.3: the image that loads the host's MPI has Open MPI 1.10.4; section 6.9.1.
    "cte_power": {"main": "openmpi"},
    # SANDIA section IV.B: the image has Intel MPI.
    "ec2": {"c3-8xlarge": "mpich"},
    # Of no document; foss has Open MPI.
    "eessi": {"zen4": "openmpi"},
    # D12.6 section 8.1.7: openmpi/4.0.1-gnu-9.2.0-ib.
    "excess": {"ivybridge": "openmpi", "haswell": "openmpi"},
    # D12.6 sections 5.4 and 5.5: OpenMPI of foss-2018b.
    "kay": {"compute": "openmpi"},
    # D12.6 section 6.1: Open MPI 1.10.4.
    "lenox": {"nodes": "openmpi"},
    # D12.6 section 7.4.1, test case 1: Intel MPI.
    "marconi": {"skylake": "mpich"},
    # D12.5 section 2.4.1: Open MPI.
    "marenostrum4": {"main": "openmpi"},
    # MIPT section 3: /usr/lib64/mpich/bin/mpirun.
    "mipt": {"pair": "mpich"},
    # D12.6 section 6.3, as CTE-POWER.
    "thunderx": {"main": "openmpi"},
    # Ours; a cluster may be up that is like a Cray, or has nodes of other architectures.
    "virtual_cluster": {
        "compute": "mpich" if CLUSTER["like"] == "cray" else "openmpi",
        **dict.fromkeys(CLUSTER["emulated"], "mpich" if CLUSTER["like"] == "chpce" else "openmpi"),
    },
    # SANDIA section V: Cray's MPI, of the ABI of MPICH.
    "volta": {"compute": "mpich"},
}

#: Why a case of a plain run may be skipped in a dry run, where all is as the site file says it.
TRUE_REASONS = ("its input has work for ", "needs 2 ranks: ", "no image: docker cannot build ")
TRUE_REASONS += ("no software: nobody can download ",)
#: And where pinned requirements have no files for its architecture: by architecture, those checks.
PINNED_REASON = re.compile(r"no software: \w+ is pinned for [\w, ]+, and the partition is \w+: ")
WITHOUT_FILES = {"aarch64": {"IMB"}, "ppc64le": {"IMB", "RAMP", "TensorFlowCNN"}}


@functools.cache
def without_recipe():
    """Return the checks of programs from Spack whose image has no definition file yet; all others have to have one."""
    found = set()
    for text in (path.read_text() for path in (REPOSITORY / "checks").glob("*.py")):
        recipes = re.findall(r'^    recipe = "(.+)"$', text, re.MULTILINE) if "\n    spack = " in text else []
        if not all((REPOSITORY / "images" / f"{recipe}.def").exists() for recipe in recipes):
            found |= set(re.findall(r"^@rfm\.simple_test\nclass (\w+)", text, re.MULTILINE))
    return found


def never_written(path, partition, name, variant):
    """Whether no case of a check is written for a partition: of the others there is one at least."""
    if name in WITHOUT_FILES.get(sites_of(path)[partition][1].architecture, ()):
        return True
    if name in ("Alya", "Amber", "PACE3D"):
        return True
    if name in without_recipe() and variant != "bare":
        return True
    if path.stem == "ec2":
        return variant != "bare"
    # Of 192 cores a node: the input has work for 128.
    return path.stem == "eessi" and name in ("OpenFOAM", "WordCount")


def system_of(path):
    """Return the one system of a site file."""
    (system,) = runpy.run_path(str(path))["site_configuration"]["systems"]
    return system


def sites_of(path):
    """Return what the library reads of each partition of a site file, by its name."""
    configuration = config.load_config(str(path))
    configuration.select_subconfig(system_of(path)["name"])
    configuration.add_sticky_option("general/resolve_module_conflicts", False)
    sites._site.cache_clear()
    return {one.name: (one, sites.Site.of(one)) for one in System.create(configuration).partitions}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_site_file_is_read_without_a_mistake(path):
    for partition, site in sites_of(path).values():
        assert site.architecture in ("x86_64", "aarch64", "ppc64le")
        assert site.cores
        assert partition.container_runtime


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_partition_has_the_mpi_that_the_document_says(path):
    assert {name: site.mpi_family for name, (_, site) in sites_of(path).items()} == FAMILIES[path.stem]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_image_of_a_registry_has_its_digest(path):
    """Without it the job that is to pull it fails."""
    for partition, site in sites_of(path).values():
        (runtime, *_) = partition.container_environs
        named = [*(site.images or {}).values(), *(own.image for own in (site.software or {}).values() if own.image)]
        for name in (one for one in named if "://" in one or runtime in ("Docker", "Sarus", "Shifter")):
            assert re.search("@sha256:[0-9a-f]{64}$", name), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_system_is_called_like_its_file(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem


def test_on_volta_an_integrated_check_takes_an_image_of_the_familys(session):
    arguments = ["--dry-run", "-C", str(REPOSITORY / "config" / "volta.py"), "--system=volta"]
    arguments += ["-n", "PingPong%variant=integrated%num_nodes=2%image_release=fitting"]
    result = session(*arguments, checks=REPOSITORY / "checks" / "pingpong.py")
    (case,) = result.cases
    assert case["result"] == "pass", result.output
    build, job = (Path(case["stagedir"], name).read_text() for name in ("rfm_build.sh", "rfm_job.sh"))
    assert "--mpi mpich" in build
    assert "hostmpi plan" in job and "--libmpi=/opt/cray/mpt/" in job
    assert "-B/opt/cray:/opt/cray -B/var/opt/cray:/var/opt/cray" in job


@pytest.fixture
def anywhere(tmp_path):
    """Return variables of a session for which this machine has what a site's has, Singularity and Spack; no modules.

    With these ReFrame would look for the modules here; what the job loads stays the same.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("singularity", "spack"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "RFM_RESOLVE_MODULE_CONFLICTS": "no"}


def with_images(path, directory):
    """Return a copy of a site file whose ready images are there."""
    text = path.read_text()
    for image in set(re.findall(r'"image": "(/.*)"', text)):
        ready = directory / Path(image).name
        ready.touch()
        text = text.replace(image, str(ready))
    (directory / path.name).write_text(text)
    return str(directory / path.name)


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_check_is_written_for_it(path, anywhere, session, tmp_path):
    arguments = ("--dry-run", "-C", with_images(path, tmp_path), f"--system={system_of(path)['name']}")
    result = session(*arguments, checks=REPOSITORY / "checks", **anywhere)
    assert result.status == 0, result.output
    reasons = defaultdict(set)
    for case in result.cases:
        reason = case["skip_reason"] or case["result"]
        if "full axes" not in reason:
            reasons[case["partition"], case["name"].split()[0], case["variant"]].add(reason)
    assert {name for _, name, _ in reasons} == PLAIN
    said = {one for all_ in reasons.values() for one in all_ if not PINNED_REASON.match(one)}
    assert not {one for one in said if not one.startswith(("pass", *TRUE_REASONS))}
    unwritten = {key for key, all_ in reasons.items() if "pass" not in all_}
    assert unwritten == {key for key in reasons if never_written(path, *key)}
