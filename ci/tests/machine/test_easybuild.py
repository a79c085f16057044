"""Software from EasyBuild: installed once into a cache, loaded as a module, or not at all.

With a real EasyBuild and a real Lmod, where they are here (``ci/test`` installs both), on easyconfigs of the project's
and on tiny ones of the tests' own; what does not need them, everywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import archspec.cpu
import pytest
from conftest import REPOSITORY, entry_command, entry_of, log_of
from containercheck import software
from containercheck.job import contract
from containercheck.job.build import easybuild_install
from containercheck.site.sites import Site
from containercheck.software import Wanted, managers
from reframe.core.runtime import runtime

CHECKS = REPOSITORY / "checks"
EASYCONFIGS = sorted((REPOSITORY / "easyconfigs").glob("*.eb"))
HERE = platform.machine()
EB = Path(sys.executable).parent / "eb"
LMOD = Path("/usr/share/lmod/lmod/init/bash")
#: With the Python that has it, and as root too.
SETTINGS = {"EB_PYTHON": sys.executable, "EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES": "1"}
SETTINGS["PATH"] = f"{EB.parent}:{os.environ['PATH']}"

#: Of a program that says its version.
TINY = (REPOSITORY / "ci/tests/programs/tiny.eb").read_text()


GUROBI = "license_file = '/no/such/gurobi.lic'"
SOURCE = "sources = ['Tiny24.tar.bz2']\ndownload_instructions = 'Get Tiny24 from its makers.'"


@pytest.fixture
def modules():
    """Give what a shell has that EasyBuild and Lmod can be used in."""
    if not EB.is_file():
        pytest.skip("no EasyBuild beside this Python")
    if not LMOD.is_file():
        pytest.skip("no Lmod: Debian has it as lmod")
    said = subprocess.run(["bash", "-c", f". {LMOD} && env -0"], capture_output=True, check=True).stdout.decode()
    found = dict(variable.split("=", 1) for variable in said.split("\0") if "=" in variable)
    return {**{name: text for name, text in found.items() if name.startswith(("LMOD", "MODULE", "BASH_"))}, **SETTINGS}


@pytest.fixture
def place(tmp_path, modules):
    """Write an easyconfig, and return how it is installed."""
    write(tmp_path)
    return tmp_path


def write(place, before="true", says="1.0", more="", name="Tiny", easyblock="MakeCp"):
    text = TINY.format(before=before, says=says, more=more, name=name, easyblock=easyblock)
    (place / f"{name}-1.0.eb").write_text(text)


def command(place, **parts):
    """Return the command that installs the easyconfig; the parts replace those that it usually has."""
    usual = {"name": "Tiny", "easyconfig": place / "Tiny-1.0.eb", "program": "tiny", "directory": place / "cache"}
    usual = {**usual, "target": HERE, "architecture": HERE, "link": place / "easybuild"}
    return entry_command("easybuild", **{**usual, **parts})


def install(place, modules, **parts):
    environment = {**os.environ, **modules}
    return subprocess.run(command(place, **parts), capture_output=True, text=True, timeout=600, env=environment)


def said(place):
    return subprocess.run([next(place.glob("easybuild/software/*/*/bin/tiny"))], capture_output=True, text=True).stdout


def installed(place):
    return sorted(path.name for path in (place / "cache").glob("Tiny-*") if path.is_dir())


def test_an_easyconfig_is_installed_once_and_a_changed_one_beside_it(place, modules):
    first = install(place, modules)
    assert first.returncode == 0, first.stderr + first.stdout
    assert "Tiny: installed in " in first.stdout
    assert said(place) == "1.0\n"
    record = json.loads((place / contract.EASYBUILD_RECORD).read_text())
    assert (record["module"], record["easyconfig"]) == ("Tiny/1.0", "Tiny-1.0.eb")
    assert record["sha256"]
    again = install(place, modules)
    assert "installed in" not in again.stdout
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    write(place, says="changed")
    assert install(place, modules).returncode == 0
    assert said(place) == "changed\n"
    assert len(installed(place)) == 2
    # What somebody removed is installed again.
    shutil.rmtree(place / "cache" / (place / "easybuild").resolve().name / "software")
    result = install(place, modules)
    assert result.returncode == 0, result.stderr
    assert "is not intact, installing it again" in result.stdout
    assert said(place) == "changed\n"


#: The end of the linker's output.
UNLINKED = "/usr/bin/ld: cannot find -ltiny: No such file or directory\ncollect2: error: ld returned 1 exit status"


@pytest.mark.parametrize(
    ("facts", "program", "why"),
    [
        (
            {"before": "echo 'to avoid an error, do not'; echo 'tiny.c:1: error: planted' >&2; exit 1"},
            "tiny",
            "tiny.c:1: error: planted",
        ),
        ({"before": f"echo '{UNLINKED}' >&2; exit 1"}, "tiny", UNLINKED.partition("\n")[0]),
        ({"more": "dependencies = [('NoSuch', '1.0')]"}, "tiny", "NoSuch"),
        ({"more": "nonsense nonsense"}, "tiny", "Tiny-1.0.eb"),
        ({}, "huge", "Tiny/1.0 has no huge"),
        # A source that only its makers hand out; and a program with a licence in a file, as EasyBuild knows it.
        ({"more": SOURCE}, "tiny", "file Tiny24.tar.bz2 anywhere, please follow the download instructions above, and"),
        ({"more": GUROBI, "name": "Gurobi", "easyblock": "EB_Gurobi"}, "tiny", "No existing license file specified"),
    ],
    ids=["build", "linker", "dependency", "easyconfig", "program", "source", "licence"],
)
def test_what_fails_is_one_line_and_the_place_of_the_log(place, modules, facts, program, why):
    write(place, **facts)
    result = install(place, modules, program=program, easyconfig=place / f"{facts.get('name', 'Tiny')}-1.0.eb")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: installing Tiny failed: ")
    assert why in lines[0]
    assert lines[1:] == [f"the whole log: {log_of(place / 'cache', 'Tiny')}"]
    assert installed(place) == []
    assert not (place / contract.EASYBUILD).is_symlink()


# Easyconfigs of the project's, and checks that run with them.


def test_easyconfigs_are_as_easybuild_wants_them_and_all_that_they_need_is_there(modules, tmp_path):
    for words in (["--check-contrib"], [f"--robot={REPOSITORY / 'easyconfigs'}:", "--dry-run"]):
        done = subprocess.run(
            [str(EB), *words, f"--prefix={tmp_path}", *map(str, EASYCONFIGS)],
            cwd=tmp_path,
            # Rich breaks lines at 80 columns, where it is installed.
            env={**os.environ, **modules, "COLUMNS": "4000"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    for path in EASYCONFIGS:
        assert f"{path} (module: {managers.module_of(path.name)})" in done.stdout


@pytest.fixture
def with_easybuild(modules, session, site, tmp_path):
    """Run bare checks on one node with what EasyBuild installs."""

    def run(**own):
        path = Path(site(extras={"caches": str(tmp_path / "cache"), "software": own}))
        path.write_text(path.read_text().replace("'partitions':", "'modules_system': 'lmod', 'partitions':"))
        names = f"({'|'.join(own)})%variant=bare%num_nodes=1"
        facts = {**modules, "EASYBUILD_SOURCEPATH": str(tmp_path / "sources")}
        return session("-C", str(path), "-n", names, checks=CHECKS, **facts)

    return run


def test_checks_run_with_what_easybuild_installed(with_easybuild, tmp_path):
    (tmp_path / "sources").mkdir()
    script = '. "$1/ci/lib.sh"; source_of "$2" hpcc && mv "$2"/hpcc_*.orig.tar.gz "$2/hpcc-1.5.0.tar.gz"'
    words = ["bash", "-ec", script, "-", REPOSITORY, tmp_path / "sources"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    own = {name: f"{name}-{version}-gompi-system.eb" for name, version in (("HPCC", "1.5.0"), ("PingPong", "1.0"))}
    result = with_easybuild(**{name: {"easybuild": easyconfig} for name, easyconfig in own.items()})
    assert result.status == 0, result.output
    for name, easyconfig in own.items():
        case = result.case("bare", name)
        module = managers.module_of(easyconfig)
        assert case["result"] == "pass", result.output
        assert case["provenance"]["easybuild"]["module"] == module
        assert f"module load {module}\n" in Path(case["stagedir"], "rfm_job.sh").read_text()


def test_a_program_that_is_not_the_modules_is_a_failure(with_easybuild, place):
    write(place, more="files_to_copy = [(['tiny'], 'libexec')]")
    result = with_easybuild(PingPong={"easybuild": str(place / "Tiny-1.0.eb"), "executable": "tiny"})
    (case,) = [case for case in result.cases if case["result"] == "fail"]
    said = "the module Tiny/1.0 is loaded, and the PATH has another tiny than its, or none:"
    assert said in case["fail_reason"], result.output


# Without an EasyBuild.


def site_of(is_here=True, arch="x86_64_v3", **facts):
    return Site("a:b", is_here=is_here, architecture="x86_64", cores=2, gpus=0, arch=arch, **facts)


@pytest.fixture
def lmod(monkeypatch):
    """Give ReFrame a system of modules, which is asked for nothing but words."""

    class Modules:
        name = "lmod"

        def emit_load_commands(self, name):
            return [f"module load {name}"]

    monkeypatch.setattr(runtime().system, "_modules_system", Modules())
    monkeypatch.setattr(shutil, "which", str)


def test_the_build_step_installs_into_the_sites_cache_and_the_job_loads_it(lmod):
    facts = {"easybuild": "/apps/eb", "easybuild_site": "/site/eb.cfg", "caches": "/shared"}
    found = managers.provide_easybuild(Wanted("HPCC", "hpcc", easybuild="HPCC-1.5.0-gompi-system.eb"), site_of(**facts))
    directory = REPOSITORY / "easyconfigs"
    parts = {"easyconfig": f"{directory}/HPCC-1.5.0-gompi-system.eb", "robot": [str(directory)], "program": "hpcc"}
    parts = {**parts, "architecture": "x86_64", "target": "x86_64_v3", "directory": "/shared/easybuilds"}
    parts = {**parts, "command": "/apps/eb", "site_file": "/site/eb.cfg", "compiled_for": "", "link": "easybuild"}
    assert entry_of(found.build[0]) == {"kind": "easybuild", "name": "HPCC", **parts}
    assert (found.program, found.activate[2]) == ("hpcc", "module load HPCC/1.5.0-gompi-system")
    # One that EasyBuild has is named by its file.
    (build,) = managers.provide_easybuild(Wanted("HPCC", "hpcc", easybuild="HPCC-1.5.0-foss-2022a.eb"), site_of()).build
    assert entry_of(build)["easyconfig"] == "HPCC-1.5.0-foss-2022a.eb"


def test_an_easyconfig_is_known_by_its_content(tmp_path):
    def key(directory, text):
        path = tmp_path / directory / "Tiny-1.0.eb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return easybuild_install.Module("Tiny", tmp_path, HERE, HERE, str(path), "tiny", command="true").key

    # A second checkout finds the installation of the first one.
    assert key("one", "version = '1.0'") == key("other", "version = '1.0'") != key("other", "version = '1.1'")


@pytest.mark.parametrize(
    ("easyconfig", "module"),
    [
        ("WRF-4.7.1-foss-2025a-dmpar.eb", "WRF/4.7.1-foss-2025a-dmpar"),
        ("Quantum-ESPRESSO-7.5-foss-2025b.eb", "Quantum-ESPRESSO/7.5-foss-2025b"),
        ("OpenMPI-system-GCC-system.eb", "OpenMPI/system-GCC-system"),
    ],
)
def test_a_module_is_called_as_easybuild_calls_it(easyconfig, module):
    assert managers.module_of(easyconfig) == module


@pytest.mark.parametrize(
    ("named", "facts", "said"),
    [
        ("/no/Such-1.0.eb", {}, "no software: there is no easyconfig /no/Such-1.0.eb"),
        ("such.eb", {}, "no software: such.eb is not called as an easyconfig is: <name>-<version>.eb"),
        ("Such-1.0.eb", {"easybuild": "no-such-eb"}, "HPCC comes from EasyBuild, and no-such-eb is not on the PATH"),
    ],
)
def test_what_is_not_there_is_an_error(lmod, monkeypatch, named, facts, said):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "no-such-eb" else name)
    with pytest.raises(software.Misconfigured, match=re.escape(said)):
        managers.provide_easybuild(Wanted("HPCC", "hpcc", easybuild=named), site_of(**facts))


def test_no_easybuild_is_an_error_in_the_build_step(tmp_path):
    write(tmp_path)
    result = install(tmp_path, {}, command="no-such-eb")
    assert result.returncode == 1
    assert result.stderr.startswith("error: no software: Tiny comes from EasyBuild, and there is no no-such-eb: ")
    assert len(result.stderr.splitlines()) == 1


def test_without_a_system_of_modules_there_is_nothing_that_loads_it():
    with pytest.raises(software.Misconfigured, match="a:b loads no modules: write the system's modules_system into"):
        managers.provide_easybuild(Wanted("HPCC", "hpcc", easybuild="HPCC-1.5.0-gompi-system.eb"), site_of())


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        ({"is_here": False, "arch": "skylake_avx512"}, "GCC:march=skylake-avx512 -mtune=skylake-avx512"),
        ({"is_here": False, "arch": "skylake_avx512", "build_on_node": True}, ""),
        ({"is_here": True, "arch": "skylake_avx512"}, ""),
        ({"is_here": False, "arch": "power9le"}, ""),
    ],
)
def test_easybuild_is_told_of_another_processor_than_the_one_that_compiles(facts, flags, monkeypatch):
    if HERE != "x86_64":
        pytest.skip("of x86_64")
    monkeypatch.setattr(archspec.cpu, "host", lambda: archspec.cpu.TARGETS["haswell"])
    assert managers.compiled_for(site_of(**facts)) == flags


def test_the_checksum_of_our_own_source_is_todays():
    text = (REPOSITORY / "easyconfigs" / "PingPong-1.0-gompi-system.eb").read_text()
    assert hashlib.sha256((CHECKS / "src" / "pingpong" / "pingpong.c").read_bytes()).hexdigest() in text
