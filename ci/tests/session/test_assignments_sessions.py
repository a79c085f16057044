"""Variables that do not exist: no command runs anything, and under ReFrame alone the checks concerned fail."""

from __future__ import annotations

import json

import pytest
from conftest import PLANTED, REPOSITORY
from containercheck.command import main
from containercheck.session.reframe_process import Workplace


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a place with the planted checks."""
    (tmp_path / "checks").symlink_to(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "checks"))
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    monkeypatch.delenv("RFM_CONFIG_FILES", raising=False)
    (tmp_path / "common.py").write_text("site_configuration = {}\n")
    return Workplace(tmp_path, config=tmp_path / "common.py")


@pytest.mark.parametrize(
    "words", [["run", "-n", "Planted"], ["run", "--resume"], ["nightly", "-n", "Planted"], ["acceptance", "sh", "bash"]]
)
def test_no_command_runs_anything_where_a_variable_does_not_exist(place, capsys, words):
    """The last session is kept, so that --resume can go on with it; which looks at its own too."""
    kept = json.dumps({"session_info": {"ci_run_arguments": ["-n", "Planted"]}, "runs": [{"testcases": []}]})
    place.report.parent.mkdir()
    place.report.write_text(kept)
    command, *others = words
    assert main.run(command, [*others, "-S", "Planted.second=10"], place) == 64
    said = "-S Planted.second=10: Planted has no variable second: did you mean seconds?"
    assert said in capsys.readouterr().err
    assert place.report.read_text() == kept
    assert not list(place.directory.rglob("rfm_job.sh"))
    assert list(place.directory.rglob("*report*.json")) == [place.report]


@pytest.mark.parametrize(
    ("word", "failed"), [("NoSoftware.second=10", {"NoSoftware"}), ("Plantde.rounds=2", {"NoSoftware", "Planted"})]
)
def test_under_reframe_alone_the_checks_that_it_concerns_fail(session, word, failed):
    result = session("-n", "NoSoftware%variant=bare|Planted%variant=bare", "-S", word, "-S", "rounds=1")
    assert result.status == 1
    # A check that would be skipped, too: nobody looks for the reason of a skip.
    assert {case["name"].split()[0] for case in result.cases if case["result"] == "fail"} == failed
    assert f"-S {word}: " in next(case["fail_reason"] for case in result.cases if case["result"] == "fail")
