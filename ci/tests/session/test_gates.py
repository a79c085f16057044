"""Gates that need a session of their own: what is wrong around the checks, and not in a container."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import REPOSITORY, file_of, write_program
from containercheck.job.container_runtimes import RUNTIMES


def test_a_mistake_in_the_sites_extras_stops_the_session_with_one_line(session, site):
    result = session("-C", site(extras={"software": {"Plantde": {}}}), "-n", "Planted")
    assert result.status != 0
    (line,) = [line for line in result.output.splitlines() if line.startswith("containercheck: ")]
    said = "software: unknown 'Plantde': did you mean 'Planted'?"
    assert line.startswith(f"containercheck: site file, extras of here:only: containercheck: {said}")
    assert "Traceback" not in result.output
    assert "PASSED" not in result.output


def test_a_missing_runtime_skips_with_the_reason_and_numpy_is_not_needed(session, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['numpy'] = None\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            # There may be links to nothing among them.
            taken = os.path.lexists(link)
            if program.name not in {runtime.command for runtime in RUNTIMES} and not taken:
                link.symlink_to(program)
    path = f"{hidden}:{REPOSITORY / 'checks'}"
    result = session("-n", "^Planted", "-S", "rounds=1", PATH=str(programs), PYTHONPATH=path)
    assert result.case("bare")["result"] == "pass"
    assert "no container runtime: none of apptainer" in result.case("generic")["skip_reason"]


def test_a_reframe_that_is_too_old_stops_the_session_with_one_line(session, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import reframe; reframe.VERSION = '4.9.1'\n")
    result = session(PYTHONPATH=f"{hidden}:{REPOSITORY / 'checks'}")
    assert result.status != 0
    assert "ReFrame 4.9.1 is too old" in result.output
    assert "PASSED" not in result.output
    assert "Traceback" not in result.output


#: A runtime whose ranks all run on the first core, as a second binding in a job script has them.
ONE_CORE = """case " $* " in *" hpcc "*) exec taskset -c 0 {apptainer} "$@" ;; esac
exec {apptainer} "$@\""""


@pytest.mark.long
def test_a_run_that_hangs_as_its_ranks_share_a_core_is_said_to(session, tmp_path):
    write_program(tmp_path / "apptainer", ONE_CORE.format(apptainer=shutil.which("apptainer")))
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = session("-n", "^HPL%variant=generic", "-S", "run_limit=15", checks=file_of("HPL"), **path)
    reason = result.case("generic", "HPL")["fail_reason"] or ""
    assert "hangs: killed at its limit of 15 s" in reason
    assert "its ranks share cores: they are bound to 0 | 0" in reason
    (record,) = result.stage.rglob("rounds.json")
    assert max(run["round"] for run in json.loads(record.read_text())["runs"]) <= 2
