"""What depends on the architecture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from archspec.cpu import TARGETS
from conftest import REPOSITORY, entry_of
from containercheck.job import architectures
from containercheck.job.build import machine
from containercheck.job.container_runtimes import by_name
from containercheck.site.sites import Site
from containercheck.software import Unavailable, Wanted, images, sources

SOURCES = REPOSITORY / "checks" / "src"


@pytest.mark.parametrize("architecture", architectures.KNOWN.values(), ids=architectures.KNOWN.keys())
def test_what_is_known_of_one_agrees_with_others(architecture):
    """Spack's generic target of it is archspec's family; images and programs tell it; GROMACS runs portably."""
    assert TARGETS[architecture.name].family.name == architecture.name
    assert architectures.from_sif(architecture.sif) == architectures.from_elf(architecture.elf) == architecture.name
    assert architectures.is_known(architecture.name)
    assert architectures.portable_kernels(architecture.name) in architecture.kernels


def test_what_is_not_known_has_no_name_and_no_instruction_set():
    assert architectures.from_sif(b"99") is architectures.from_elf(4711) is None
    assert architectures.from_sif(b"12") == architectures.from_elf(243) == "riscv64"
    assert not architectures.is_known("pdp11") and architectures.portable_kernels("pdp11") == "None"


def test_instruction_sets_are_those_of_the_partitions():
    both = architectures.kernels(["x86_64", "aarch64"])
    assert both[0] == "C"
    assert {"AVX_512", "ARM_SVE"} < set(both)
    assert "IBM_VSX" not in both
    # Of a partition that does not tell, any.
    assert "IBM_VSX" in architectures.kernels(["x86_64", None])
    assert architectures.has_kernels("aarch64", "C")
    assert not architectures.has_kernels("aarch64", "AVX_512")
    assert architectures.has_kernels(None, "AVX_512")


def site_of(architecture):
    return Site("cluster:compute", is_here=False, architecture=architecture, cores=4, gpus=0)


@pytest.mark.parametrize(
    ("requirements", "lacking"), [("imb", {"aarch64", "ppc64le"}), ("tensorflow", {"ppc64le"}), ("db12", set())]
)
def test_requirements_have_files_for_an_architecture_or_are_a_skip_before_any_build(requirements, lacking):
    wanted = Wanted("Code", "code", requirements=f"{requirements}/requirements.txt")
    for name in architectures.KNOWN:
        if name not in lacking:
            assert sources.provide_environment(wanted, site_of(name)).build
            continue
        with pytest.raises(
            Unavailable, match=f"^no software: {requirements} is pinned for .*, and the partition is {name}"
        ):
            sources.provide_environment(wanted, site_of(name))


def test_what_requirements_are_for_is_known_by_its_name():
    """A misspelt one would be a skip everywhere."""
    for path in SOURCES.glob("*/requirements*.txt"):
        assert set(machine.limits_of(path.read_text())[0]) <= set(architectures.KNOWN), path


@pytest.mark.parametrize(("arch", "name"), [("sm_70", "requirements-cuda.txt"), ("gfx90a", "requirements.txt")])
def test_a_program_on_gpus_of_nvidia_gets_cuda_and_the_same_versions_of_all_else(arch, name):
    """The environment of bare, and the argument of the image."""
    wanted = Wanted("Code", "code", requirements="tensorflow/requirements.txt", recipe="tensorflow", gpu=True)
    site = replace(site_of("x86_64"), gpus=4, gpu_arch=arch, release="bookworm")
    found = images.provide_image(replace(wanted, runtime=by_name("Apptainer")), site)
    entries = [entry_of(command) for command in (*sources.provide_environment(wanted, site).build, *found.build)]
    assert Path(entries[0]["requirements"]).name == name
    assert entries[1]["arguments"] == [f"REQUIREMENTS={name}"]
    assert sources.requirements_of(replace(wanted, gpu=False), site).name == "requirements.txt"
    pins = [
        {line.split(" ")[0] for line in (SOURCES / "tensorflow" / file).read_text().splitlines() if "==" in line}
        for file in ("requirements.txt", "requirements-cuda.txt")
    ]
    others = {pin for pin in pins[1] if not pin.startswith("nvidia-")}
    assert others == pins[0] - {pin for pin in pins[0] if pin.startswith("tensorflow-cpu")}
