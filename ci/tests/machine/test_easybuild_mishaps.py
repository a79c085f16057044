"""Mishaps of installations with EasyBuild: a full disk, a missing licence. One line each, and nothing half done.

With a real EasyBuild; a disk that fills up is a file system in memory, which takes root.
"""

from __future__ import annotations

import subprocess

import pytest
from conftest import log_of
from containercheck.job import contract
from test_easybuild import HERE, install, installed, modules, place, said, write  # noqa: F401
from test_images import file_system  # noqa: F401

#: Of a file system in memory, takes what is free, and more than there is.
FULL = "mount -o remount,size=$(($(df --output=used -k {where} | tail -1) + {kilobytes}))k {where}; "
FULL += "cat /dev/zero >{file}; true"
#: What is left is too little for what any of the builds here writes.
ADVICE = "free some, or set easybuild_cache in the site's extras"


def fill(where, file, kilobytes=64):
    """Return the command that fills a file system that is mounted there."""
    return FULL.format(where=where, file=file, kilobytes=kilobytes)


@pytest.fixture
def cache(place, file_system):
    """Put the cache into memory, as large as an installation is begun with; none of it is used yet."""
    mounted = file_system("size=5g")
    (place / "cache").symlink_to(mounted)
    return mounted


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_disk_that_fills_up_is_one_line_and_nothing_is_taken_for_installed(place, modules, cache, when):
    """While it builds, and when all is there but the module."""
    filling = fill(cache, "filler" if when == "before" else "%(installdir)s/filler")
    write(place, **({"before": filling} if when == "before" else {"more": f"postinstallcmds = [{filling!r}]"}))
    result = install(place, modules)
    assert result.returncode == 1
    assert result.stderr == f"error: no space left while installing Tiny in {cache}: {ADVICE}\n"
    assert installed(place) == []
    assert not (place / contract.EASYBUILD).is_symlink()
    subprocess.run(["mount", "-o", "remount,size=5g", str(cache)], check=True)
    write(place)
    result = install(place, modules)
    assert result.returncode == 0, result.stderr
    assert said(place) == "1.0\n"


def test_half_a_module_of_a_dependency_is_not_taken_for_one(place, modules, file_system):
    """EasyBuild itself takes an empty file for a module: what it depends on would be missing."""
    tree = file_system("size=256k")
    (place / "cache").mkdir()
    (place / "cache" / f"tree-{HERE}").symlink_to(tree)
    written = fill(tree, "%(installdir)s/filler")
    # There is room for its directory.
    write(place, name="Dep", more=f"postinstallcmds = ['mkdir -p {tree}/{contract.EASYBUILD_MODULES}/Dep; {written}']")
    write(place, more="dependencies = [('Dep', '1.0')]")
    result = install(place, modules, f"--robot={place}")
    assert result.returncode == 1
    module = tree / contract.EASYBUILD_MODULES / "Dep" / "1.0.lua"
    assert module.read_text() == ""
    subprocess.run(["mount", "-o", "remount,size=64m", str(tree)], check=True)
    write(place, name="Dep")
    result = install(place, modules, f"--robot={place}")
    assert result.returncode == 0, result.stderr
    assert "Dep/1.0.lua was never finished, installing it again\n" in result.stdout
    assert "Built with EasyBuild" in module.read_text()
    assert said(place) == "1.0\n"


#: Of a program with a licence in a file, as EasyBuild knows it; and one whose source only its makers hand out.
GUROBI = "license_file = '/no/such/gurobi.lic'"
SOURCE = "sources = ['Tiny24.tar.bz2']\ndownload_instructions = 'Get Tiny24 from its makers.'"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"more": GUROBI, "name": "Gurobi", "easyblock": "EB_Gurobi"}, "No existing license file specified: /no/such/"),
        (
            {"more": SOURCE},
            "Couldn't find file Tiny24.tar.bz2 anywhere, please follow 'Get Tiny24 from its makers.', and",
        ),
    ],
    ids=["licence", "source"],
)
def test_a_licence_that_nobody_has_is_one_line(place, modules, facts, why):
    write(place, **facts)
    result = install(place, modules, easyconfig=place / f"{facts.get('name', 'Tiny')}-1.0.eb")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: installing Tiny failed: ")
    assert why in lines[0]
    assert lines[1:] == [f"the whole log: {log_of(place / 'cache', 'Tiny')}"]
    assert not (place / contract.EASYBUILD).is_symlink()
    assert list((place / "cache").glob("*-1.0-*")) == []
