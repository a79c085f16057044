"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import runpy

import pytest
from conftest import REPOSITORY
from containercheck import sites
from reframe.core import config
from reframe.core.systems import System

FILES = sorted(path for path in (REPOSITORY / "config").glob("*.py") if path.stem not in ("common", "template"))


def system_of(path):
    """Return the one system of a site file."""
    (system,) = runpy.run_path(str(path))["site_configuration"]["systems"]
    return system


@pytest.fixture
def copied(tmp_path):
    """Make a copy of a site file without its modules, and the system for them: this machine has neither."""

    def make(path):
        system = system_of(path)
        system["modules_system"] = "nomod"
        for partition in system["partitions"]:
            for platform in partition["container_platforms"]:
                platform.pop("modules", None)
        copy = tmp_path / path.name
        copy.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
        return str(copy)

    return make


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_site_file_is_read_without_a_mistake(path, copied):
    configuration = config.load_config(copied(path))
    configuration.select_subconfig(system_of(path)["name"])
    sites._site.cache_clear()
    for partition in System.create(configuration).partitions:
        site = sites.Site.of(partition)
        assert site.architecture in ("x86_64", "aarch64", "ppc64le")
        assert site.cores
        assert partition.container_runtime


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_system_is_called_like_its_file(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_check_is_written_for_it(path, copied, session):
    arguments = ("--dry-run", "-C", copied(path), f"--system={system_of(path)['name']}")
    result = session(*arguments, checks=REPOSITORY / "checks")
    assert result.status == 0, result.output
    assert any(case["result"] == "pass" for case in result.cases)
