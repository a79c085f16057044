"""Two builds of one program, compared: what each is for, how its image is made, and that each proves what it is."""

from __future__ import annotations

import re
import shutil

import pytest
from conftest import REPOSITORY, entry_of
from containercheck import Candidate
from containercheck.job import architectures
from containercheck.job.container_runtimes import by_name
from containercheck.site.sites import Site
from containercheck.software import Unavailable, Wanted, images
from gromacs import SIMD
from saved import OUTPUTS
from test_images import HERE, RUNTIME, build, key_of, recipes, recorded, run  # noqa: F401
from test_images import images as built

CHECKS = REPOSITORY / "checks"


def partition(arch, architecture="x86_64", **facts):
    return Site("a:b", is_here=False, architecture=architecture, cores=2, gpus=0, **{"arch": arch, **facts})


# The instruction set.


@pytest.mark.parametrize(
    ("arch", "architecture", "own"),
    [
        ("skylake_avx512", "x86_64", "AVX_512"),
        ("zen4", "x86_64", "AVX_512"),
        ("zen3", "x86_64", "AVX2_256"),
        ("haswell", "x86_64", "AVX2_256"),
        ("x86_64_v3", "x86_64", "AVX2_256"),
        ("sandybridge", "x86_64", "AVX_256"),
        ("a64fx", "aarch64", "ARM_SVE"),
    ],
)
def test_a_processor_has_the_widest_set_of_its_own(arch, architecture, own):
    assert images.native_kernels(partition(arch, architecture)) == own


@pytest.mark.parametrize(
    ("arch", "architecture"), [("nehalem", "x86_64"), ("neoverse_n1", "aarch64"), ("power9le", "ppc64le")]
)
def test_where_the_portable_image_has_it_too_there_is_nothing_to_compare(arch, architecture):
    with pytest.raises(Unavailable, match=f"nothing to compare: {arch} has .*, which the portable image is built for"):
        images.native_kernels(partition(arch, architecture))


# The images.


def test_two_builds_of_a_recipe_are_two_images_and_the_recipe_gets_what_it_is_told(recipes, tmp_path):
    recipe = recipes / "tiny.def"
    recipe.write_text(recipe.read_text().replace("    MIRROR=\n", "    MIRROR=\n    KERNELS=portable\n"))
    recipe.write_text(recipe.read_text() + "    Kernels {{ KERNELS }}\n")
    for told, label in (([], "portable"), (["KERNELS=AVX_512"], "AVX_512")):
        result = build(recipes, tmp_path / "cache", arguments=told)
        assert result.returncode == 0, result.stderr
        assert f"Kernels: {label}\n" in run([RUNTIME, "inspect", "--labels", str(tmp_path / "image.sif")]).stdout
        assert recorded(tmp_path).get("arguments") == ([f"KERNELS={label}"] if told else None)
    assert len(built(tmp_path / "cache")) == 2


def test_what_a_recipe_does_not_take_makes_no_other_image(recipes):
    assert key_of(recipes, "tiny", arguments=["KERNELS=AVX_512"]) == key_of(recipes, "tiny")


def test_each_is_built_from_the_recipe_though_the_site_has_a_ready_image(monkeypatch):
    monkeypatch.setattr(shutil, "which", str)
    wanted = Wanted(
        "GROMACSNative",
        "gmx_mpi",
        recipe="gromacs",
        runtime=by_name("Apptainer"),
        release="bookworm",
        candidates=(Candidate("portable", arguments={}), Candidate("native", arguments={"KERNELS": "AVX_512"})),
    )
    found = images.provide_image(wanted, partition("zen4", images={"gromacs": "/ready.sif"}))
    assert found.images == {"portable": "portable.image.sif", "native": "native.image.sif"}
    portable, native = map(entry_of, found.build)
    assert (portable["link"], portable["arguments"], portable["own"]) == ("portable.image.sif", [], False)
    assert (native["link"], native["arguments"], native["own"]) == ("native.image.sif", ["KERNELS=AVX_512"], False)


def test_the_log_says_it_as_the_answers_ask_it():
    (told,) = re.findall(SIMD, (OUTPUTS / "gromacs" / "passing" / "md.log").read_text(), re.MULTILINE)
    assert told in architectures.KERNELS_BY_FEATURE.values()


# The check.


@pytest.mark.skipif(HERE != "x86_64", reason="of x86_64")
def test_two_runtimes_are_a_skip_of_what_compares_its_own_images(session, site):
    settings = site(processor={"arch": "zen4", "num_cpus": 2})
    words = ("-n", "GROMACSNative", "-S", "full=yes", "-S", "runtimes=old:apptainer")
    result = session("-C", settings, *words, checks=CHECKS / "gromacs_native.py")
    reason = "this check compares its own two images only"
    case = result.case("generic", "GROMACSNative")
    assert (case["result"], case["skip_reason"]) == ("skip", reason), result.output
