"""Every gate fails when it should: faults planted in real containers, in real sessions."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY

#: A partition of nodes with two GPUs, as the site file describes it.
GPU_PARTITION = {
    "scheduler": "slurm",
    "launcher": "srun",
    "processor": {"arch": "none", "num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1},
    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 2}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
    "container_platforms": [{"type": "Apptainer"}],
}


def reason(case):
    return case["fail_reason"] or ""


def test_equal_runs_pass(session):
    result = session("-n", "Planted")
    assert result.status == 0, result.output
    (row,) = result.case("generic")["results"]
    assert row["verdict"] == "pass"
    # 0.5 s against 0.51 and 0.5 in turn.
    assert row["overhead"] == pytest.approx(100 * (0.5 / math.sqrt(0.51 * 0.5) - 1))


def test_a_dry_run_writes_the_job_and_runs_nothing(session, site):
    result = session("--dry-run", "-C", site(**GPU_PARTITION), "-n", "Planted", "-S", "gpu=yes")
    assert result.status == 0, result.output
    scripts = [path.read_text() for path in result.stage.rglob("rfm_job.sh")]
    assert len(scripts) == 2
    assert all("#SBATCH --gres=gpu:2\n" in script for script in scripts)
    assert any(re.search(r"^apptainer exec .*--nv .* sh work.sh none$", script, re.MULTILINE) for script in scripts)
    assert not list(result.stage.rglob("rounds.json"))


def test_slow_container_fails_with_figure_and_interval(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=slow")
    assert result.status != 0
    case = result.case("generic")
    assert case["fail_phase"] == "performance"
    assert "time is" in reason(case)
    assert "±" in reason(case)
    assert "worse than bare (tolerance 5 %)" in reason(case)
    (row,) = case["results"]
    assert row["overhead"] == pytest.approx(100 * (0.6 / math.sqrt(0.51 * 0.5) - 1))


def test_wrong_answer_fails_though_it_is_fast(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=wrong", "-S", "rounds=2")
    case = result.case("generic")
    assert (result.status != 0, case["fail_phase"]) == (True, "sanity")
    assert "answers differ: sum is 43.0, bare 42.0" in reason(case)


def test_hang_is_killed_and_named_and_the_other_rounds_finish(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=hang", "-S", "rounds=3", "-S", "run_limit=10")
    case = result.case("generic")
    assert result.status != 0
    assert "round 2, subject: hangs: killed at its limit of 10 s" in reason(case)
    record = json.loads(next(result.stage.rglob("rounds.json")).read_text())
    assert record["complete"]
    assert [run["timed_out"] for run in record["runs"]] == [False, False, True, False, False, False]
    assert subprocess.run(["pgrep", "-f", "sleep 1000"]).returncode == 1, "the hanging run's children live on"


def test_unreadable_figure_fails(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=unreadable", "-S", "rounds=1")
    assert result.status != 0
    assert "figure time not found in" in reason(result.case("generic"))


def test_crash_fails_with_what_the_program_said(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=crash", "-S", "rounds=1")
    assert result.status != 0
    assert "exit status 3: FATAL: it broke" in reason(result.case("generic"))


def test_singletons_instead_of_ranks_fail(session):
    result = session("-n", "Singletons", "-S", "rounds=1")
    assert result.status != 0
    assert "ran with 1 ranks instead of 2" in reason(result.case("generic"))


def test_missing_software_skips_with_the_reason(session):
    result = session("-n", "NoSoftware")
    assert [case["result"] for case in result.cases] == ["skip"] * 3
    assert "no software: no-such-program is not on the PATH" in result.case("bare")["skip_reason"]


def test_software_for_other_machines_skips_with_the_reason(session):
    result = session("-n", "OtherMachine")
    assert [case["result"] for case in result.cases] == ["skip"] * 2
    assert "no software: src is pinned for pdp11, and this machine is" in result.case("bare")["skip_reason"]


def test_missing_image_skips_with_the_reason(session):
    case = session("-n", "NoImage").case("generic")
    assert case["result"] == "skip"
    assert "no image: there is no definition file images/no-such-recipe.def" in case["skip_reason"]


def test_image_that_the_site_names_and_does_not_have_skips_with_the_reason(session, site):
    settings = site(extras={"images": {"openmpi": "/nowhere/openmpi.sif"}})
    case = session("-C", settings, "-n", "Planted%variant=generic").case("generic")
    assert "no image: /nowhere/openmpi.sif" in case["skip_reason"]


def test_missing_runtime_skips_with_the_reason(session, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            if program.name not in ("apptainer", "singularity", "docker", "sarus", "shifter") and not link.exists():
                link.symlink_to(program)
    result = session("-n", "Planted", "-S", "rounds=1", PATH=str(programs))
    assert result.case("bare")["result"] == "pass"
    assert "no container runtime: none of apptainer" in result.case("generic")["skip_reason"]


@pytest.mark.parametrize("package", ["numpy", "reframe"])
def test_unsuitable_python_stops_the_session_with_one_line(session, tmp_path, package):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    if package == "numpy":
        (hidden / "sitecustomize.py").write_text("import sys; sys.modules['numpy'] = None\n")
        expected = "no numpy in ReFrame's Python"
    else:
        (hidden / "sitecustomize.py").write_text("import reframe; reframe.VERSION = '4.9.1'\n")
        expected = "ReFrame 4.9.1 is too old"
    result = session(PYTHONPATH=f"{hidden}:{REPOSITORY / 'checks'}")
    assert result.status != 0
    assert expected in result.output
    assert "PASSED" not in result.output
    assert "Traceback" not in result.output


@pytest.fixture
def clone(tmp_path):
    """Give a copy of the files that ci/run reads, with this checkout's virtual environment."""
    copy = tmp_path / "clone"
    copy.mkdir()
    for name in ("checks", "ci", "config", "images", "pyproject.toml"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name)
        else:
            shutil.copy(source, copy / name)
    (copy / ".venv").symlink_to(REPOSITORY / ".venv")
    return copy


def ci_run(clone, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    return subprocess.run(
        ["bash", "ci/run", *arguments],
        cwd=clone,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )


def test_ci_run_ends_with_the_table(clone):
    result = ci_run(clone, "-n", "StartUp%variant=bare", "-S", "rounds=1")
    assert result.returncode == 0, result.stdout
    assert "application  variant  nodes  figure" in result.stdout
    assert json.loads((clone / "reports" / "run-report.json").read_text())["runs"]


@pytest.mark.parametrize(
    ("line", "said"), [("this is no Python", "SyntaxError"), ("import no_such_module", "a check file does not load")]
)
def test_ci_run_fails_when_a_check_file_does_not_load(clone, line, said):
    (clone / "checks" / "broken.py").write_text(f"import reframe as rfm\n{line}\n")
    result = ci_run(clone, "-n", "StartUp%variant=bare", "-S", "rounds=1")
    assert result.returncode != 0
    assert said in result.stdout


def test_ci_run_fails_when_nothing_matches(clone):
    result = ci_run(clone, "-n", "NoSuchCheck")
    assert result.returncode != 0
    assert "no check was run" in result.stdout
