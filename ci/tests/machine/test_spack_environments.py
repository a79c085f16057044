"""The environments in ``spack-envs/``: exact versions; a real Spack concretises each, once.

With the Spack on the PATH, as it is configured there. An environment that names what the recipes of this Spack do not
have is a failure, and Spack's own line in it says what.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess

import pytest
import yaml
from conftest import REPOSITORY
from containercheck.node import contract
from containercheck.node.build import spack_install as building

ENVIRONMENTS = REPOSITORY / "spack-envs"
NAMES = sorted(path.name for path in ENVIRONMENTS.iterdir())
HERE = platform.machine()


def content(name):
    return yaml.safe_load((ENVIRONMENTS / name / building.NAME).read_text())["spack"]


def named(spec):
    """Return the package and the version that a spec names."""
    return tuple(spec.split()[0].split("@"))


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_names_exact_versions_and_no_target(name):
    environment = content(name)
    assert environment["include"] == [building.SITE, building.PARTITION]
    assert all(len(named(spec)) == 2 and "target=" not in spec for spec in environment["specs"])
    assert environment["concretizer"] == {"unify": True}
    assert environment["view"] is True


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_real_spack_concretises_an_environment_once(name, tmp_path, monkeypatch, capsys):
    if shutil.which("spack") is None:
        pytest.skip("no spack on the PATH")
    cache = tmp_path / "cache"

    def lock():
        return building.Lock(name, building.Parts(ENVIRONMENTS / name, None, HERE, "spack"), cache, HERE)

    made = json.loads(lock().ensure().read_text())
    assert f"{name}: concretised in " in capsys.readouterr().out
    roots = [made["concrete_specs"][root["hash"]] for root in made["roots"]]
    # A version that is the beginning of another one would do for Spack, too.
    assert {(root["name"], root["version"]) for root in roots} == set(map(named, content(name)["specs"]))
    assert {root["arch"]["target"] for root in roots} == {HERE}

    # From the cache, where nothing may be made.
    monkeypatch.setenv(contract.CACHED_ONLY, "1")
    locked = lock().ensure().read_text()
    assert capsys.readouterr().out == ""
    # And Spack finds nothing to do, as when it installs.
    place = tmp_path / "environment"
    place.mkdir()
    building.write(place, {**lock().texts, building.LOCK: locked})
    again = subprocess.run(building.spack("spack", place, "concretize"), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert json.loads((place / building.LOCK).read_text())["concrete_specs"] == made["concrete_specs"]
