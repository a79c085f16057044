"""The build step as a job."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest
from conftest import file_of

HERE = platform.machine()


@pytest.mark.parametrize(
    ("extras", "options", "on_node"),
    [
        ({}, (), False),
        ({"build_on_node": True}, (), True),
        # ReFrame's own word for it.
        ({}, ("-S", "build_locally=no"), True),
    ],
)
@pytest.mark.parametrize("variant", ["bare", "generic"])
def test_the_build_step_is_a_job_where_there_is_something_to_build(
    session, site, tmp_path, extras, options, on_node, variant
):
    processor = {"arch": HERE, "num_cpus": 2, "num_cpus_per_core": 1, "num_cpus_per_socket": 2, "num_sockets": 1}
    facts = {"scheduler": "squeue", "launcher": "srun", "access": ["--partition=fat"], "processor": processor}
    facts["container_platforms"] = [{"type": "Apptainer"}]
    settings = site(**facts, time_limit="30m", extras={"python": "/opt/python3", **extras})
    result = session("--dry-run", "-C", settings, "-n", f"HPCC%variant={variant}", *options, checks=file_of("HPCC"))
    assert result.status == 0, result.output
    (path,) = result.stage.rglob("rfm_build.sh")
    script = path.read_text()
    # Bare HPCC is the host's.
    expected = on_node and variant == "generic"
    assert bool(re.search("^#SBATCH --partition=fat$", script, re.MULTILINE)) is expected
    assert bool(re.search("^#SBATCH --time=0:30:0$", script, re.MULTILINE)) is expected
    assert ("/opt/python3 /" in script) is expected
    assert "--exclusive" not in script
    # .venv may be a link, and ReFrame's own script names what it leads to.
    python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
    assert (f"{python} " in script) is (variant == "generic" and not on_node)
