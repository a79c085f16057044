"""The site files in ``config/``, and what the library reads of each."""

from __future__ import annotations

import os
import re
import runpy

import pytest
from conftest import REPOSITORY, write_program
from containercheck.site import sites
from reframe.core import config
from reframe.core.systems import System

FILES = sorted(path for path in (REPOSITORY / "config").glob("*.py") if path.stem not in ("common", "template"))


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
    return {
        partition.name: (partition, sites.Site.of(partition)) for partition in System.create(configuration).partitions
    }


@pytest.fixture
def anywhere(tmp_path):
    """Return variables of a session on a machine that has the programs of the sites, such as Spack; no modules.

    With these ReFrame would look for the modules here; what the job loads stays the same.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("singularity", "spack", "xhpl_mpich"):
        write_program(programs / name, "exit 1")
    return {"PATH": f"{programs}:{os.environ['PATH']}", "RFM_RESOLVE_MODULE_CONFLICTS": "no"}


def with_paths(path, directory):
    """Return a copy of a site file in which a file or directory is at each path that a person replaces."""
    text = path.read_text()
    for name in set(re.findall(r'"(/path/to/[^"]*|/shared/[^"]*[.]sif)"', text)):
        place = directory / name.lstrip("/")
        if "." in place.name:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch(mode=0o755)
        else:
            place.mkdir(parents=True, exist_ok=True)
        text = text.replace(f'"{name}"', f'"{place}"')
    (directory / path.name).write_text(text)
    return str(directory / path.name)
