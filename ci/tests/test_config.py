"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import os
import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import REPOSITORY
from containercheck import sites
from reframe.core import config
from reframe.core.systems import System

FILES = sorted(path for path in (REPOSITORY / "config").glob("*.py") if path.stem not in ("common", "template"))

#: Checks of a plain run.
PLAIN = {
    "DB12",
    "GROMACS",
    "HPCC",
    "HPL",
    "IMB",
    "IOzone",
    "OpenFOAM",
    "PingPong",
    "QuantumEspresso",
    "RAMP",
    "SemanticSpaces",
    "StartUp",
    "TensorFlowCNN",
    "WordCount",
}
#: Why a case of a plain run may be skipped in a dry run, where all is as the site file says it.
TRUE_REASONS = ("its input has work for ", "needs 2 ranks: ", "no image: docker cannot build ")


def never_written(path, name, variant):
    """Whether no case of a check is written for a site: of the others there is one at least."""
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
def test_a_system_is_called_like_its_file(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem


@pytest.fixture
def anywhere(tmp_path):
    """Return variables of a session for which this machine has what a site's has: Singularity; and no modules to load.

    Without the second ReFrame would look for the modules here; what the job loads stays the same.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "singularity").write_text("#!/bin/sh\nexit 1\n")
    (programs / "singularity").chmod(0o755)
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
    assert not {one for all_ in reasons.values() for one in all_ if not one.startswith(("pass", *TRUE_REASONS))}
    unwritten = {key for key, all_ in reasons.items() if "pass" not in all_}
    assert unwritten == {key for key in reasons if never_written(path, *key[1:])}
