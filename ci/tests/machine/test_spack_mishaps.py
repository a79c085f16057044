"""Mishaps of installations with Spack: a full disk, a missing licence. One line each, and nothing half done.

With a real Spack, where one is on the PATH; a disk that fills up is a file system in memory, which takes root.
"""

from __future__ import annotations

import subprocess

import pytest
from conftest import log_of, write_program
from containercheck.job import contract
from test_easybuild_mishaps import fill
from test_images import file_system  # noqa: F401
from test_spack import HERE, environments, install, place, said, write  # noqa: F401

ADVICE = "free some, or set spack_cache in the site's extras"
#: A package's own lines, before what it installs.
RUN = 'Executable("sh")("-c", {!r})'
#: What a package says of its class, before its versions.
CLASS = "    has_code = False\n"


@pytest.fixture
def cache(place, file_system):
    """Put the cache into memory, as large as an installation is begun with; none of it is used yet."""
    mounted = file_system("size=5g")
    (place / "cache").symlink_to(mounted)
    return mounted


def package_of(place):
    return next((place / "repository").rglob("package.py"))


def test_a_disk_that_fills_up_is_one_line_and_nothing_is_taken_for_installed(place, cache):
    filling = fill(cache, "$PREFIX/filler")
    write(place, install=f'os.environ["PREFIX"] = str(prefix); {RUN.format(filling)}')
    package = package_of(place)
    package.write_text(f"import os\n{package.read_text()}")
    result = install(place)
    assert result.returncode == 1
    assert result.stderr == f"error: no space left while installing tiny in {cache}: {ADVICE}\n"
    assert environments(place) == []
    assert not (place / contract.SPACK).is_symlink()
    subprocess.run(["mount", "-o", "remount,size=5g", str(cache)], check=True)
    write(place)
    result = install(place)
    assert result.returncode == 0, result.stderr
    assert said(place) == f"1.1 {HERE}\n"


def test_a_licence_file_is_waited_for_by_nobody(place, tmp_path):
    """Spack has somebody write it, in an editor; as it says, a licence may as well come from elsewhere."""
    editor = tmp_path / "editor"
    write_program(editor, "sleep 1000")
    package = package_of(place)
    wanted = 'license_required = True\n    license_files = ["tiny.lic"]\n'
    package.write_text(package.read_text().replace(CLASS, f"{CLASS}    {wanted}"))
    with (place / "site.yaml").open("a") as stream:
        stream.write(f"config:\n  license_dir: {tmp_path}/licences\n")
    result = install(place, environment={"VISUAL": str(editor), "EDITOR": str(editor)})
    assert result.returncode == 0, result.stderr
    assert said(place) == f"1.1 {HERE}\n"


def test_a_source_that_only_its_makers_hand_out_is_one_line(place):
    package = package_of(place)
    version = f'version("1.1", sha256="{"0" * 64}", url="file:///no/such/Tiny20.tar.bz2")'
    text = package.read_text().replace(CLASS, "    manual_download = True\n").replace('version("1.1")', version)
    package.write_text(text)
    result = install(place)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: installing tiny failed: ")
    assert "Manual download is required for tiny. Refer to https://example.org for download instructions." in lines[0]
    assert lines[1:] == [f"the whole log: {log_of(place / 'cache', 'tiny')}"]
    assert environments(place) == []
