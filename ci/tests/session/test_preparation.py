"""What is to run is built before anything is measured: with ReFrame, and with checks made here."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.session import passes, preparation, reframe_process
from session_place import place, run, start  # noqa: F401

HERE = "prepared_checks.py"


@pytest.fixture
def prepared(place, request):
    """Make a place with checks that build."""
    shutil.copy(request.path.parents[1] / HERE, place.directory / "checks" / "made.py")
    return place


def journal(place):
    return (place.directory / "journal").read_text().splitlines()


def test_everything_is_built_before_anything_is_measured_and_each_thing_once(prepared):
    status, output = run(prepared, "-n", "First|Second")
    assert status == 0, output
    done = journal(prepared)
    assert sorted(done[:2]) == ["build image", "build program"]
    assert sorted(done[2:]) == ["run First", "run First", "run Second"]
    assert (
        "run: preparing 3 case(s): what they need is built, or found in a cache, before anything is measured" in output
    )
    assert re.search(r"run: 2 of 2 build\(s\) done in \d+ s\n", output)
    assert output.index("build(s) done") < output.index("[ RUN      ]")


def test_what_measures_here_is_measured_one_after_the_other(prepared):
    status, output = run(prepared, "-n", "First|Second")
    assert status == 0, output
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words == ["RUN", "OK"] * 3
    # The person's own choice counts.
    status, output = run(prepared, "-n", "First|Second", "--exec-policy=async")
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words[:3] == ["RUN"] * 3


def test_the_cheapest_checks_are_run_first(prepared):
    """ReFrame runs a file's checks in its order, and files as they are named."""
    text = (prepared.directory / "checks" / "made.py").read_text()
    head, *classes = re.split(r"(?=@rfm\.simple_test\n)", text)
    for name, cost in (("a", 300.0), ("b", 20.0), ("c", 100.0)):
        own = classes[1].replace("Second", name.upper()).replace("20.0", str(cost))
        (prepared.directory / "checks" / f"{name}.py").write_text(head + own)
    (prepared.directory / "checks" / "made.py").unlink()
    status, output = run(prepared)
    assert status == 0, output
    assert [line for line in journal(prepared) if line.startswith("run")] == ["run B", "run C", "run A"]


def test_a_build_that_fails_is_told_and_the_others_go_on(prepared):
    status, output = run(prepared, "-n", "Second|Fails")
    told = "run: not built, and tried again in its turn: Fails generic, 1 node(s): no space left\n"
    assert told in output
    assert "run Second" in journal(prepared)
    assert "2 of 2 build(s) done" in output
    assert status == 0, output


def test_a_signal_ends_the_builds_and_nothing_is_run(prepared):
    process = start(prepared, "-n", "First|Hangs")
    assert eventually(lambda: Path(prepared.directory, "journal").exists() and "hangs" in str(journal(prepared)))
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "run: error: stopped by SIGTERM\n" in output
    assert not any(line.startswith("run ") for line in journal(prepared))
    pid = next(line.split()[1] for line in journal(prepared) if line.startswith("hangs"))
    assert not Path("/proc", pid).exists()


def report(tmp_path, *cases):
    """Return a dry run's report of cases, each with its build script: name, variant, script, and more facts."""
    raw = []
    for number, (name, variant, script, facts) in enumerate(cases):
        stage = tmp_path / f"stage{number}"
        stage.mkdir()
        (stage / preparation.SCRIPT).write_text(script.format(stage=stage))
        told = {"name": name, "unique_name": f"{name}_{variant}", "partition": "only", "environ": "builtin"}
        told.update({"variant": variant, "num_nodes": 1, "result": "pass", "scheduler": "local"})
        raw.append({**told, "stagedir": str(stage), **facts})
    return {"runs": [{"testcases": raw}]}


def test_what_is_built_elsewhere_or_not_wanted_is_left_alone(tmp_path):
    found = report(
        tmp_path,
        ("A", "generic", "cd {stage}; image a", {}),
        ("A", "integrated", "cd {stage}; image a", {}),
        ("B", "generic", "image b", {"scheduler": "slurm"}),
        ("C", "generic", "image c", {"build_locally": False}),
        ("D", "generic", "image d", {}),
        ("A", "bare", "#!/bin/bash\n(true) && echo $? >build.status", {}),
        ("E", "generic", "image e", {"result": "skip", "skip_reason": "no software"}),
    )
    keys = [
        ("", "only", "builtin", f"{name}") for name in ("A_bare", "A_generic", "A_integrated", "B_generic", "C_generic")
    ]
    (build,) = preparation.builds(found, [*keys, ("", "only", "builtin", "E_generic")])
    assert build.name == "A generic, 1 node(s); A integrated, 1 node(s)"


@pytest.mark.parametrize(
    ("status", "said", "problem"),
    [
        ("0", "a warning", ""),
        ("3", "error: no such compiler", ""),
        ("1", "error: no space left\nthe whole log", "no space left"),
        ("1", "", "it printed nothing"),
        (None, "killed", "killed"),
    ],
)
def test_what_a_build_came_to(tmp_path, status, said, problem):
    (tmp_path / preparation.ERR).write_text(said)
    if status:
        (tmp_path / preparation.STATUS).write_text(f"{status}\n")
    assert preparation.Build(tmp_path, ()).problem == problem


def test_the_session_and_the_build_step_agree():
    from containercheck.node import contract

    assert (contract.BUILD_STATUS, str(contract.UNSUPPORTED)) == (preparation.STATUS, preparation.UNSUPPORTED)


def test_files_of_what_is_skipped_come_last_and_are_there(tmp_path):
    costs = [("A", {"expected": {"expected": 50.0}}), ("B", {"expected": {"expected": 5.0}})]
    cases = [(name, "generic", "", {**facts, "filename": f"/c/{name}.py"}) for name, facts in costs]
    cases.insert(0, ("S", "generic", "", {"result": "skip", "skip_reason": "no", "filename": "/c/S.py"}))
    assert passes.files_cheapest_first(report(tmp_path, *cases)) == ["/c/B.py", "/c/A.py", "/c/S.py"]
    assert passes.files_cheapest_first({"runs": []}) == []
    assert reframe_process.names_checks(["-n", "x", "-c", "mine/"])
    assert reframe_process.names_checks(["--checkpath=mine/"])
    assert not reframe_process.names_checks(["-C", "site.py", "-n", "x"])
