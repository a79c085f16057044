"""The environments in ``spack-envs/``: exact versions; a real Spack concretises each, once.

With the Spack on the PATH, as it is configured there. An environment that names what the recipes of this Spack do not
have is a failure, and Spack's own line in it says what.
"""

from __future__ import annotations

import platform
import shutil

import pytest
import yaml
from conftest import REPOSITORY
from containercheck.job.build import spack_install as building

ENVIRONMENTS = REPOSITORY / "spack-envs"
NAMES = sorted(path.name for path in ENVIRONMENTS.iterdir() if path.is_dir())
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
def test_a_real_spack_concretises_an_environment(name, tmp_path):
    if shutil.which("spack") is None:
        pytest.skip("no spack on the PATH")
    parts = building.Parts(ENVIRONMENTS / name, None, HERE, "spack")
    environment = building.Environment(name, parts, tmp_path / "cache", HERE)
    environment.path.mkdir(parents=True)
    for _ in range(2):
        environment.concretise()
        roots = building.roots(environment.locked()).values()
        # A version that is the beginning of another one would do for Spack, too.
        assert {(root["name"], root["version"]) for root in roots} == set(map(named, content(name)["specs"]))
