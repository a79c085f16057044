"""A real session tells no secret."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from canary import CANARY, readable
from conftest import PLANTED, REPOSITORY, write_program
from served import served  # noqa: F401


def holding(directory: Path) -> set[str]:
    """Return the names of all files with the canary in them."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.name for path in files if CANARY.encode() in path.read_bytes()}


@pytest.mark.parametrize("variant", ["bare", "generic"])
def test_a_session_tells_no_secret(variant, session, site, tmp_path, served):
    """Of the session's environment, the site's variables, its runtime's, its partition's, and a signed address."""
    directory, address = served
    (directory / "input.txt").write_text("input\n")
    pin = subprocess.run(["sha256sum", directory / "input.txt"], capture_output=True, text=True).stdout.split()[0]
    environs = [["APPTAINER_DOCKER_PASSWORD", f"{CANARY}-platform"]]
    config = site(
        env_vars=[["PARTITION_SECRET", f"{CANARY}-partition"]],
        container_platforms=[{"type": "Apptainer", "env_vars": environs}],
        extras={
            "software": {
                "Planted": {
                    "environ": {"APPLICATION_SECRET": f"{CANARY}-environ", "PLANTED_VERSION": "2024.9"},
                    "input": f"{address}/input.txt?token={CANARY}-query#sha256={pin}",
                }
            },
            "caches": str(tmp_path / "cache"),
        },
    )
    # A runtime that hands its container another token each time.
    wrapper = tmp_path / "wrapper" / "apptainer"
    wrapper.parent.mkdir()
    handed = f'APPTAINERENV_CI_JOB_TOKEN="{CANARY}-$(date +%N)" APPTAINERENV_OMP_WAIT_POLICY=active'
    write_program(wrapper, f'{handed} exec apptainer "$@"')
    compared = ["-S", f"runtimes=old:apptainer,new:{wrapper}"] if variant == "generic" else []
    options = ["-C", str(REPOSITORY / "config" / "common.py"), "-C", config, "-S", "rounds=1", *compared]
    (tmp_path / "work").mkdir()
    facts = {"RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"), "CI_JOB_TOKEN": f"{CANARY}-session"}
    facts["RFM_SAVE_LOG_FILES"] = "yes"
    result = session(*options, "-n", f"Planted%variant={variant}", checks=PLANTED, **facts)
    case = result.case(variant)
    assert CANARY not in result.output
    Path(config).unlink()
    assert case["provenance"]["input"] == f"{address}/input.txt#sha256={pin}"
    if variant == "generic":
        # It is told that the runtimes differ, and in what; of a setting also how.
        assert case["result"] == "fail"
        assert re.search(r"variable CI_JOB_TOKEN was hidden:\w{8}, and is hidden:\w{8}\n", case["fail_reason"])
        assert "variable OMP_WAIT_POLICY is new: active" in case["fail_reason"]
        assert not list(result.stage.rglob("variables.key"))
    else:
        assert case["result"] == "pass", result.output
        # The program has its variables all the same.
        assert case["provenance"]["builds"]["baseline"]["version"] == "2024.9"
        assert "2024.9" not in str(case["prerun_cmds"])
    # ReFrame's scripts set what the site's file says, and a file of ours what its software needs.
    scripts = {"rfm_job.sh", "rfm_build.sh"}
    # What it keeps of the check for its own use stays in the stage directory, which is closed.
    kept = {"baseline.environ.sh", "reproduce.sh", ".rfm_testcase.json"}
    assert holding(tmp_path) - {"apptainer"} <= scripts | kept
    assert (tmp_path / "results.db").exists() and (tmp_path / "report.json").exists()
    wrapper.unlink()
    assert readable(tmp_path) == []
    # Each file by itself too, wherever somebody copies it.
    for name in [*scripts, "baseline.environ.sh", "reproduce.sh"]:
        assert all(not path.stat().st_mode & 0o077 for path in tmp_path.rglob(name)), name
