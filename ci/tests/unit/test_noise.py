"""Programs against themselves: which checks there are, and what is printed of a session."""

from __future__ import annotations

import noise
import pytest
from containercheck.results.row import Row


def test_checks_are_those_that_do_not_belong_to_the_full_axes_and_an_unknown_one_is_refused():
    assert "GROMACS" in noise.applications()
    assert "GROMACSThreads" not in noise.applications()
    with pytest.raises(SystemExit, match="no check Nothing: there are .*DB12, "):
        noise.parse(["Nothing"])


def lines_of(result, verdicts=(), **facts):
    """Return the lines about a case with a metric for each verdict."""
    common = {"accepted": (None, 5.0), "overhead_unit": "%", "overhead": 1.0, "rounds": 8, "spread": 2.0}
    rows = [Row(name, verdict=verdict, **common).to_json() for name, verdict in zip("ab", verdicts)]
    raw = {"display_name": "HPL %variant=bare", "partition": "one", "result": result, "results": rows, **facts}
    return noise.lines_of(raw)


@pytest.mark.parametrize(
    ("result", "facts", "line"),
    [
        ("fail", {"fail_phase": "sanity", "fail_reason": "round 1,\n hangs"}, "BROKEN: sanity: round 1, hangs"),
        # A reference of the site's own that is not met is no verdict.
        ("fail", {"fail_phase": "performance", "verdicts": ["pass"]}, "BROKEN: performance: no reason given"),
        ("skip", {"skip_reason": "no software"}, "skipped: no software"),
        ("pass", {"verdicts": ["emulated"]}, "skipped: the processors are emulated, and nothing is judged there"),
        ("pass", {}, "it has no metrics here"),
    ],
)
def test_what_was_not_measured_is_one_line(result, facts, line):
    assert lines_of(result, **facts) == [f"HPL on one: {line}"]


def test_a_false_verdict_is_in_the_table():
    lines = lines_of("fail", ["fail", "pass"], fail_phase="performance")
    assert lines[0] == "HPL on one: 8 rounds"
    assert [line.split() for line in lines[2:]] == [["a", "5", "%", "2", "fail", "*"], ["b", "5", "%", "2", "pass"]]
