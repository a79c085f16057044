"""Environments of Spack: installed once into a cache, or not at all.

With a real Spack, where one is on the PATH, from a package of the tests' own that takes a second to install; what does
not need one, everywhere.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest
import yaml
from conftest import REPOSITORY, entry_command, entry_of, log_of, write_program
from containercheck import software
from containercheck.job import contract
from containercheck.job.build import spack_install
from containercheck.site.sites import Site
from containercheck.software import Wanted, managers
from saved import OUTPUTS

HERE = platform.machine()
SAVED = OUTPUTS / "spack"

#: A package without a source: its program says its version, and what it was told to.
PACKAGE = """
from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Tiny(Package):
    homepage = "https://example.org"
    has_code = False

    version("1.1")
    version("1.0")

    def install(self, spec, prefix):
        {install}
        mkdirp(prefix.bin)
        with open(prefix.bin.tiny, "w") as stream:
            stream.write("#!/bin/sh\\necho %s %s\\n" % (spec.version, spec.target))
        set_executable(prefix.bin.tiny)
"""
ENVIRONMENT = """
spack:
  include: [site.yaml, partition.yaml]
  specs: ["{spec}"]
  view: true
"""


@pytest.fixture
def place(tmp_path):
    """Write an environment of one package, and a site's file with the repository that has it."""
    if shutil.which("spack") is None:
        pytest.skip("no spack on the PATH")
    package = tmp_path / "repository" / "spack_repo" / "tests" / "packages" / "tiny"
    package.mkdir(parents=True)
    (package.parents[1] / "repo.yaml").write_text("repo:\n  namespace: tests\n  api: v2.0\n")
    (tmp_path / "tiny").mkdir()
    (tmp_path / "site.yaml").write_text(f"repos:\n  tests: {package.parents[1]}\n")
    write(tmp_path)
    return tmp_path


def write(place, spec="tiny@1.1", install="pass"):
    package = place / "repository" / "spack_repo" / "tests" / "packages" / "tiny" / "package.py"
    package.write_text(PACKAGE.format(install=install))
    (place / "tiny" / "spack.yaml").write_text(ENVIRONMENT.format(spec=spec))


def install(place, variables=(), **parts):
    """Install the environment; the parts replace those that it usually has."""
    usual = {"environment": place / "tiny", "site_file": place / "site.yaml", "directory": place / "cache"}
    usual = {**usual, "target": HERE, "architecture": HERE, "link": place / "spack"}
    command, environment = entry_command("spack", **{**usual, **parts}), {**os.environ, **dict(variables)}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


def said(place):
    """Return what the program prints that the check would run."""
    program = place / contract.SPACK / contract.SPACK_VIEW / "bin" / "tiny"
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def environments(place):
    """Return the installed environments in the cache, by name."""
    return sorted(path.name for path in (place / "cache").glob("tiny-*") if path.is_dir())


def test_an_environment_is_concretised_and_installed_once(place):
    first = install(place)
    assert first.returncode == 0, first.stderr + first.stdout
    assert "tiny: installed in " in first.stdout
    assert said(place) == f"1.1 {HERE}\n"
    again = install(place)
    assert " in 0 s" not in again.stdout and "installed in" not in again.stdout
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    (spec,) = json.loads((place / contract.SPACK_RECORD).read_text())["specs"]
    assert spec.startswith("tiny@1.1/")
    # What it is made of makes another one; and so does another target.
    write(place, "tiny@1.0")
    assert install(place).returncode == 0
    assert said(place) == f"1.0 {HERE}\n"
    with (place / "site.yaml").open("a") as stream:
        stream.write("# another site\n")
    if HERE == "x86_64":
        assert install(place, target="x86_64_v2").returncode == 0
        assert said(place) == "1.0 x86_64_v2\n"
        assert len(environments(place)) == 3


def test_a_program_that_an_environment_does_not_build_is_a_reason_for_a_skip(place):
    result = install(place, program="bin/huge")
    assert result.returncode == contract.UNSUPPORTED
    where = place / "tiny" / "spack.yaml"
    assert (
        result.stderr == f"error: no software: the environment tiny does not build bin/huge: see the specs in {where}\n"
    )


def test_a_prefix_that_somebody_removed_is_installed_again(place):
    install(place)
    (prefix,) = json.loads(next((place / "cache").glob("tiny-*.json")).read_text())["prefixes"]
    shutil.rmtree(prefix)
    result = install(place)
    assert result.returncode == 0, result.stderr
    assert "is not intact, installing it again" in result.stdout
    assert said(place) == f"1.1 {HERE}\n"


def test_what_is_installed_is_packed_for_an_image(place):
    assert install(place).returncode == 0
    places = (place / "tiny", place / "cache")
    environment = spack_install.SpackEnvironment(*places, HERE, HERE, site_file=place / "site.yaml")
    assert environment.is_intact()
    spack_install.pack(environment, place / "environment.tar")
    with tarfile.open(place / "environment.tar") as archive:
        packed = {member.name: member for member in archive.getmembers()}
    (spec,) = environment.facts()["specs"]
    program = f"opt/env/tiny-{spec.partition('/')[2]}/bin/tiny"
    assert packed[program].mode & 0o111
    assert os.path.normpath(packed["opt/env/view/bin/tiny"].linkname) == f"/{program}"
    assert not any(".spack" in name for name in packed)


@pytest.mark.parametrize(
    ("facts", "target", "why"),
    [
        ({"spec": "no-such-package"}, HERE, "no-such-package"),
        ({"spec": "tiny"}, "pdp11", "pdp11"),
        ({"install": 'Executable("sh")("-c", "echo tiny.c:1: error: planted; exit 1")'}, HERE, "planted"),
    ],
)
def test_what_fails_is_one_line_and_the_place_of_the_log(place, facts, target, why):
    write(place, **facts)
    result = install(place, target=target)
    assert result.returncode != 0
    first, second = result.stderr.splitlines()
    assert first.startswith("error: installing tiny failed: ") and why in first
    assert second == f"the whole log: {log_of(place / 'cache', 'tiny')}"
    assert environments(place) == []
    assert not (place / contract.SPACK).is_symlink()
    write(place)
    assert install(place).returncode == 0


# Mishaps

#: What a package says of its class, before its versions.
CLASS = "    has_code = False\n"


def test_a_licence_file_is_waited_for_by_nobody(place, tmp_path):
    """Spack has somebody write it, in an editor; as it says, a licence may as well come from elsewhere."""
    editor = tmp_path / "editor"
    write_program(editor, "sleep 1000")
    package = next((place / "repository").rglob("package.py"))
    wanted = 'license_required = True\n    license_files = ["tiny.lic"]\n'
    package.write_text(package.read_text().replace(CLASS, f"{CLASS}    {wanted}"))
    with (place / "site.yaml").open("a") as stream:
        stream.write(f"config:\n  license_dir: {tmp_path}/licences\n")
    result = install(place, variables={"VISUAL": str(editor), "EDITOR": str(editor)})
    assert result.returncode == 0, result.stderr
    assert said(place) == f"1.1 {HERE}\n"


# Without a Spack.


@pytest.mark.parametrize(
    ("output", "why"),
    [(path.name, (path / "why").read_text().strip()) for path in sorted(SAVED.iterdir())],
)
def test_the_line_that_tells_most_is_found(tmp_path, output, why):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / spack_install.NAME).write_text("spack: {}\n")
    made = spack_install.SpackEnvironment(tmp_path / "tiny", tmp_path, HERE, HERE, "true")
    made.log.write_text((SAVED / output / "log").read_text())
    assert made.last_words() == why


def site(**facts):
    return Site("a:b", is_here=True, architecture="x86_64", cores=2, gpus=0, **{"arch": "x86_64_v3", **facts})


def test_the_build_step_installs_into_the_sites_cache(monkeypatch):
    monkeypatch.setattr(shutil, "which", str)
    facts = {"spack": "/apps/spack", "spack_site": "/site/spack.yaml", "caches": "/shared"}
    found = managers.provide_spack(Wanted("HPCG", "xhpcg", spack="hpcg"), site(**facts))
    assert found.program == "./spack/.spack-env/view/bin/xhpcg"
    assert found.activate == ('export PATH="$PWD/spack/.spack-env/view/bin:$PATH"',)
    parts = {"environment": f"{REPOSITORY}/spack-envs/hpcg", "program": "bin/xhpcg", "link": "spack"}
    parts = {**parts, "directory": "/shared/spacks", "architecture": "x86_64", "target": "x86_64_v3"}
    assert entry_of(found.build[0]) == {
        "kind": "spack",
        "command": "/apps/spack",
        "site_file": "/site/spack.yaml",
        **parts,
    }
    found = managers.provide_spack(Wanted("WRF", "wrf.exe", spack="hpcg", view_directory="main"), site())
    assert found.program == "./spack/.spack-env/view/main/wrf.exe"
    with pytest.raises(software.Misconfigured, match="no software: there is no /no/such/spack.yaml"):
        managers.provide_spack(Wanted("HPCG", "xhpcg", spack="/no/such"), site())


@pytest.mark.parametrize(
    ("gpus", "arch", "uses", "variants"),
    [
        (2, "sm_70", True, "+cuda cuda_arch=70"),
        (2, "sm_90a", True, "+cuda cuda_arch=90a"),
        (4, "gfx90a", True, "~cuda +rocm amdgpu_target=gfx90a"),
        # GPUs of an unknown kind, a program that uses none, and nodes without any.
        (2, "", True, "~cuda"),
        (2, "sm_70", False, "~cuda"),
        (0, "sm_70", True, "~cuda"),
    ],
)
def test_a_program_that_uses_gpus_is_compiled_for_those_of_the_partition(
    monkeypatch, tmp_path, gpus, arch, uses, variants
):
    monkeypatch.setattr(shutil, "which", str)
    there = replace(site(gpu_arch=arch), gpus=gpus)
    wanted = Wanted("GROMACSHybrid", "gmx_mpi", spack="gromacs", gpu=uses)
    parts = entry_of(managers.provide_spack(wanted, there).build[0])
    trees = managers.tree_of(wanted, there)
    assert parts.get("gpus", "~cuda") == trees.get("gpus", "~cuda") == variants
    found = [
        spack_install.SpackEnvironment(OWN_ENVIRONMENTS / "gromacs", tmp_path, HERE, HERE, "true", gpus=words)
        for words in (parts.get("gpus", ""), "")
    ]
    assert f" ~double {variants} build_type=" in found[0].texts[spack_install.NAME]
    # Another build has a place of its own.
    assert (found[0].key == found[1].key) == (variants == "~cuda")


@pytest.mark.parametrize(
    ("command", "of_site", "kind", "status"),
    [
        ("spack", False, software.Unavailable, contract.UNSUPPORTED),
        ("no-such-spack", False, software.Misconfigured, 1),
        ("spack", True, software.Misconfigured, contract.UNSUPPORTED),
    ],
)
def test_no_spack_is_a_skip_and_an_error_where_the_site_names_it(tmp_path, monkeypatch, command, of_site, kind, status):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(kind, match=f"HPCG comes from Spack, and {command} is not on the PATH"):
        managers.provide_spack(Wanted("HPCG", "xhpcg", spack="hpcg", of_site=of_site), site(spack=command))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "spack.yaml").write_text("spack: {}\n")
    result = install(tmp_path, command=command, site_file=None)
    assert result.returncode == status
    assert result.stderr.startswith(f"error: no software: tiny comes from Spack, and there is no {command}: ")
    assert len(result.stderr.splitlines()) == 1
    result = install(tmp_path, command="true")
    message = f"error: [Errno 2] No such file or directory: '{tmp_path / 'site.yaml'}'\n"
    assert (result.returncode, result.stderr) == (1, message)


# The environments in spack-envs/: exact versions; a real Spack concretises each.

OWN_ENVIRONMENTS = REPOSITORY / "spack-envs"
NAMES = sorted(path.name for path in OWN_ENVIRONMENTS.iterdir() if path.is_dir())


def content(name):
    return yaml.safe_load((OWN_ENVIRONMENTS / name / spack_install.NAME).read_text())["spack"]


def named(spec):
    """Return the package and the version that a spec names."""
    return tuple(spec.split()[0].split("@"))


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_names_exact_versions_and_no_target(name):
    environment = content(name)
    assert environment["include"] == [spack_install.SITE, spack_install.PARTITION]
    assert all(len(named(spec)) == 2 and "target=" not in spec for spec in environment["specs"])
    assert environment["concretizer"] == {"unify": True}
    assert environment["view"] is True


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_real_spack_concretises_an_environment(name, tmp_path):
    if shutil.which("spack") is None:
        pytest.skip("no spack on the PATH")
    environment = spack_install.SpackEnvironment(OWN_ENVIRONMENTS / name, tmp_path / "cache", HERE, HERE)
    environment.path.mkdir(parents=True)
    for _ in range(2):
        environment.concretise()
        roots = spack_install.roots(environment.locked()).values()
        # A version that is the beginning of another one would do for Spack, too.
        assert {(root["name"], root["version"]) for root in roots} == set(map(named, content(name)["specs"]))
