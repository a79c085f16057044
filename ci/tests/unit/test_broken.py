"""What ends before the first round: broken containers are failures, and what could not be judged is another status."""

from __future__ import annotations

import subprocess

import made
import pytest
import yaml
from conftest import REPOSITORY, TURN
from containercheck.command import nightly


@pytest.mark.parametrize(
    ("script", "is_broken"),
    [
        ("echo error: the image needs libc 2.41 >&2; exit 1", True),
        ("sleep 100", True),
        # A reason to skip; and what somebody else ended, such as a scheduler.
        ("exit 3", False),
        ("kill -TERM $$", False),
    ],
)
def test_a_job_says_that_its_preparation_failed(start_rounds, tmp_path, script, is_broken):
    (tmp_path / "prepare.sh").write_text(script)
    options = ("--prepare=prepare.sh", "--prepare-limit=1")
    process = start_rounds("true", None, 1, 10, *options, stderr=subprocess.DEVNULL)
    process.communicate(timeout=TURN)
    assert process.returncode != 0
    assert (tmp_path / "unprepared").exists() == is_broken


@pytest.mark.parametrize(
    ("phase", "kind", "status", "title"),
    [
        ("sanity", "SanityError", 1, "slower than accepted"),
        ("sanity", "NotMeasured", 2, "ended before anything was measured"),
        ("setup", "ReframeError", 2, "ended before anything was measured"),
    ],
)
def test_a_night_tells_what_is_broken_from_what_was_not_measured(tmp_path, phase, kind, status, title):
    why = {"fail_phase": phase, "fail_info": {"exc_type": kind}, "fail_reason": "no rounds were run: no ranks came up"}
    result = nightly.Result("tonight", made.cases([made.case(result="fail", **why)]))
    result.add_unstored([])
    assert nightly.conclude(result, tmp_path) == status
    assert title in (tmp_path / "report.html").read_text()


def test_a_pipeline_is_green_only_where_all_was_measured():
    pipeline = yaml.safe_load((REPOSITORY / ".gitlab-ci.yml").read_text())
    assert not any("allow_failure" in job for job in pipeline.values())
