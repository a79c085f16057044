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
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, log_of
from containercheck import software
from containercheck.job import contract
from containercheck.job.build import spack_install as building
from containercheck.job.build import spack_packing
from containercheck.site.sites import Site
from containercheck.software import Wanted, managers

PROGRAM = REPOSITORY / "checks" / "containercheck" / "job"
HERE = platform.machine()
OUTPUTS = Path(__file__).resolve().parents[1] / "outputs" / "spack"

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
    (tmp_path / "environment").mkdir()
    (tmp_path / "site.yaml").write_text(f"repos:\n  tests: {package.parents[1]}\n")
    write(tmp_path)
    return tmp_path


def write(place, spec="tiny@1.1", install="pass"):
    package = place / "repository" / "spack_repo" / "tests" / "packages" / "tiny" / "package.py"
    package.write_text(PACKAGE.format(install=install))
    (place / "environment" / "spack.yaml").write_text(ENVIRONMENT.format(spec=spec))


def command(place, *options, target=HERE, architecture=HERE, command="spack", site=True):
    words = ["--environment", place / "environment", "--spack", command, "--target", target]
    words += ["--site", place / "site.yaml"] if site else []
    words += ["--architecture", architecture, "--cache", place / "cache", "--link", place / "spack", *options, "tiny"]
    return [sys.executable, str(PROGRAM), "spack", *map(str, words)]


def install(place, *options, environment=None, **facts):
    return subprocess.run(
        command(place, *options, **facts),
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **(environment or {})},
    )


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


def test_what_it_is_made_of_makes_another_one(place):
    install(place)
    write(place, "tiny@1.0")
    assert install(place).returncode == 0
    assert said(place) == f"1.0 {HERE}\n"
    with (place / "site.yaml").open("a") as stream:
        stream.write("# another site\n")
    install(place)
    assert len(environments(place)) == 3


def test_the_target_is_the_partitions(place):
    if HERE != "x86_64":
        pytest.skip("of x86_64")
    result = install(place, target="x86_64_v2")
    assert result.returncode == 0, result.stderr
    assert said(place) == "1.1 x86_64_v2\n"


def test_a_package_that_loses_the_target_is_an_error(place):
    if HERE != "x86_64":
        pytest.skip("of x86_64")
    with (place / "site.yaml").open("a") as stream:
        stream.write("packages:\n  tiny:\n    require: ['@1.1']\n")
    result = install(place, target="x86_64")
    if result.returncode == 0:
        pytest.skip("this machine is no other processor than x86_64, or this Spack keeps the target")
    assert result.stderr.startswith("error: installing tiny failed: tiny would be for ")
    assert "write 'prefer' where" in result.stderr.splitlines()[0]
    assert environments(place) == []


def test_a_program_that_an_environment_does_not_build_is_a_reason_for_a_skip(place):
    result = install(place, "--program", "bin/huge")
    assert result.returncode == contract.UNSUPPORTED
    where = place / "environment" / "spack.yaml"
    assert (
        result.stderr == f"error: no software: the environment tiny does not build bin/huge: see the specs in {where}\n"
    )


def test_a_prefix_that_somebody_removed_is_installed_again(place):
    install(place)
    (prefix,) = json.loads(next((place / "cache").glob("tiny-*.json")).read_text())["prefixes"]
    shutil.rmtree(prefix)
    result = install(place)
    assert result.returncode == 0, result.stderr
    assert "is not complete, installing it again" in result.stdout
    assert said(place) == f"1.1 {HERE}\n"


def test_what_is_installed_is_packed_for_an_image(place):
    assert install(place).returncode == 0
    parts = building.Parts(place / "environment", place / "site.yaml", HERE, "spack")
    environment = building.Environment("tiny", parts, place / "cache", HERE)
    assert environment.is_intact()
    spack_packing.pack(environment, place / "environment.tar")
    with tarfile.open(place / "environment.tar") as archive:
        packed = {member.name: member for member in archive.getmembers()}
    (spec,) = environment.facts()["specs"]
    program = f"opt/env/tiny-{spec.partition('/')[2]}/bin/tiny"
    assert packed[program].mode & 0o111
    assert os.path.normpath(packed["opt/env/view/bin/tiny"].linkname) == f"/{program}"
    assert not any(".spack" in name for name in packed)


@pytest.mark.parametrize(
    ("spec", "target", "why"),
    [
        ("no-such-package", HERE, "no-such-package"),
        ("tiny@7", HERE, "tiny@7"),
        ("tiny", "pdp11", "pdp11"),
    ],
)
def test_what_cannot_be_concretised_is_one_line(place, spec, target, why):
    write(place, spec)
    result = install(place, target=target)
    assert result.returncode != 0
    assert result.stderr.startswith("error: installing tiny failed: ")
    assert why in result.stderr.splitlines()[0]
    assert len(result.stderr.splitlines()) == 2
    assert environments(place) == []
    assert not (place / contract.SPACK).is_symlink()


def test_a_build_that_fails_is_one_line(place):
    write(place, install='Executable("sh")("-c", "echo tiny.c:1: error: planted; exit 1")')
    result = install(place)
    assert result.returncode == 1
    assert result.stderr.startswith("error: installing tiny failed: ")
    assert "planted" in result.stderr.splitlines()[0]
    assert result.stderr.splitlines()[1] == f"the whole log: {log_of(place / 'cache', 'tiny')}"
    assert environments(place) == []
    write(place)
    assert install(place).returncode == 0


# Without a Spack.


@pytest.mark.parametrize(
    ("output", "why"),
    [(path.name, (path / "why").read_text().strip()) for path in sorted(OUTPUTS.iterdir())],
)
def test_the_line_that_tells_most_is_found(tmp_path, output, why):
    environment = tmp_path / "environment"
    environment.mkdir()
    (environment / building.NAME).write_text("spack: {}\n")
    parts = building.Parts(environment, None, HERE, "true")
    made = building.Environment("tiny", parts, tmp_path, HERE)
    made.log.write_text((OUTPUTS / output / "log").read_text())
    assert made.last_words() == why


def site(**facts):
    return Site("a:b", is_here=True, architecture="x86_64", cores=2, gpus=0, **{"arch": "x86_64_v3", **facts})


def test_the_build_step_installs_into_the_sites_cache(monkeypatch):
    monkeypatch.setattr(shutil, "which", str)
    facts = {"spack": "/apps/spack", "spack_site": "/site/spack.yaml", "spack_cache": "/shared/spacks"}
    found = managers.provide_spack(Wanted("HPCG", "xhpcg", spack="hpcg"), site(**facts))
    (build,) = found.build
    assert found.program == "./spack/.spack-env/view/bin/xhpcg"
    assert found.activate == ('export PATH="$PWD/spack/.spack-env/view/bin:$PATH"',)
    assert f" spack --environment {REPOSITORY}/spack-envs/hpcg --spack /apps/spack --architecture x86_64 " in build
    assert " --target x86_64_v3 --cache /shared/spacks --link spack --site /site/spack.yaml " in build
    assert build.endswith(" --program bin/xhpcg hpcg")


def test_a_program_lies_where_its_package_installs_it(monkeypatch):
    monkeypatch.setattr(shutil, "which", str)
    found = managers.provide_spack(Wanted("WRF", "wrf.exe", spack="hpcg", view_directory="main"), site())
    assert found.program == "./spack/.spack-env/view/main/wrf.exe"


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
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "spack.yaml").write_text("spack: {}\n")
    result = install(tmp_path, command=command, site=False)
    assert result.returncode == status
    assert result.stderr.startswith(f"error: no software: tiny comes from Spack, and there is no {command} (")
    assert len(result.stderr.splitlines()) == 1


def test_an_environment_that_is_not_there_is_an_error():
    with pytest.raises(software.Misconfigured, match="no software: there is no /no/such/spack.yaml"):
        managers.provide_spack(Wanted("HPCG", "xhpcg", spack="/no/such"), site())


def test_a_sites_file_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "spack.yaml").write_text("spack: {}\n")
    result = install(tmp_path, command="true")
    said = f"error: no software: Spack's file {tmp_path / 'site.yaml'} cannot be read: No such file or directory\n"
    assert (result.returncode, result.stderr) == (1, said)
