"""Images that people made with habits of their own: the host's MPI is brought in all the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.long

#: Moves the image's BLAS to a place that only the image's own environment names, as Pawsey's and OLCF's images do.
OWN_LIBRARY_PATH = """\
%post
    mkdir -p /opt/x/lib
    cp --dereference /usr/lib/*/libblas.so.3 /usr/lib/*/liblapack.so.3 /opt/x/lib/
    rm -f /usr/lib/*/libblas.so.3 /usr/lib/*/liblapack.so.3 /usr/lib/*/openblas-serial/lib*.so.3
    ldconfig

%environment
    export LD_LIBRARY_PATH=/opt/x/lib
"""
#: Has a script start the program.
WRAPPER = """\
%post
    program=$(command -v pingpong)
    mkdir -p /opt/x/bin
    mv "$program" /opt/x/bin/
    printf '#!/bin/sh\\nexec /opt/x/bin/pingpong "$@"\\n' >"$program"
    chmod 755 "$program"
"""


@pytest.fixture
def own_image(session, tmp_path):
    """Build an image upon one of ours, and return its path."""

    def build(check, habit):
        # Has the image of ours built, where it is not in the cache.
        result = session("-n", f"^{check}%variant=generic", "-S", "rounds=1", checks=REPOSITORY / "checks")
        base = result.case("generic", check)["provenance"]["image"]
        recipe = tmp_path / "own.def"
        recipe.write_text(f"Bootstrap: localimage\nFrom: {base}\n\n{habit}")
        words = ["apptainer", "build", "--fakeroot", str(tmp_path / "own.sif"), str(recipe)]
        subprocess.run(words, check=True, capture_output=True, timeout=600)
        return str(tmp_path / "own.sif")

    return build


def integrated(session, settings, check):
    result = session(
        "-C", settings, "-n", f"^{check}%variant=integrated", "-S", "rounds=1", checks=REPOSITORY / "checks"
    )
    case = result.case("integrated", check)
    records = list(result.stage.rglob("rounds.json"))
    assert records, case["fail_reason"] or result.output
    # Several, where something else disturbed a round.
    runs = [run for run in json.loads(records[0].read_text())["runs"] if run["side"] == "subject"]
    return runs[-1], records[0].parent


@pytest.mark.parametrize(
    ("check", "recipe", "habit"), [("HPCC", "hpcc", OWN_LIBRARY_PATH), ("PingPong", "pingpong", WRAPPER)]
)
def test_the_hosts_mpi_comes_into_an_image_with_habits(session, site, own_image, check, recipe, habit):
    settings = site(extras={"images": {recipe: own_image(check, habit)}})
    run, stage = integrated(session, settings, check)
    assert run["status"] == 0, Path(stage, run["output"], "err").read_text()
    # All of it is the host's.
    assert run["mpi"]
    assert all(path.startswith("/host/") for path in run["mpi"])
    said = (stage / "rfm_job.out").read_text()
    assert ("pingpong in the image is a script: which MPI its program loads is seen" in said) == (habit == WRAPPER)


def test_a_script_that_brings_its_own_mpi_is_seen_while_it_runs(session, site, own_image):
    """Nothing tells before the rounds that it undoes what was done; the maps of its ranks do."""
    habit = WRAPPER.replace("exec /opt", "unset LD_LIBRARY_PATH\\nexec /opt")
    settings = site(extras={"images": {"pingpong": own_image("PingPong", habit)}})
    result = session(
        "-C", settings, "-n", "^PingPong%variant=integrated", "-S", "rounds=1", checks=REPOSITORY / "checks"
    )
    reason = result.case("integrated", "PingPong")["fail_reason"]
    assert "of the image, not the host's " in reason, reason
