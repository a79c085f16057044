"""Programs against themselves: the check files written, a real session, what is counted, the arithmetic."""

from __future__ import annotations

import doctest
import importlib
import math
import os
import random
import re
import subprocess

import itself
import noise
import pytest
import twice
from against_itself import listing
from conftest import REPOSITORY
from containercheck.results.row import Row
from hypothesis import assume, given
from hypothesis import strategies as st
from noise import Cost


def class_of(check):
    return getattr(importlib.import_module(twice.applications()[check]), check)


def names_in(facts):
    return {fact.name for fact in facts}


# The tables.


@pytest.mark.parametrize("check", noise.LENGTHS)
def test_a_length_is_a_variable_of_its_check_and_longer_than_the_short_one(check):
    length = noise.LENGTHS[check]
    assert all(hasattr(class_of(check), name) for name in (length.variable, *length.also))
    assert 0 < length.short < length.long


@pytest.mark.parametrize("check", itself.MORE)
def test_figures_and_answers_of_more_work_are_those_of_the_check(check):
    more = itself.MORE[check]
    assert more.figures
    assert set(more.figures) <= names_in(class_of(check).figures)
    assert set(more.answers) <= names_in(class_of(check).answers)


def test_the_percentage_and_the_sources_are_filled_in():
    facts = itself.MORE["PingPong"].filled_in(10)
    assert "count * 10 / 100" in facts["input"][0]
    assert str(REPOSITORY / "checks" / "src" / "pingpong") in facts["input"][0]
    assert facts["executable"] == "./bin/more"
    assert not re.search(r"PERCENT|SOURCES", str(facts))


def test_ping_pong_has_one_place_where_messages_are_counted():
    assert (REPOSITORY / "checks" / "src" / "pingpong" / "pingpong.c").read_text().count("number < count;") == 1


def test_ten_percent_more_text_and_iterations_are_ten_percent_more(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"word " * 2000)
    (tmp_path / "case" / "system").mkdir(parents=True)
    control = tmp_path / "case" / "system" / "controlDict"
    control.write_text("startTime 0;\nendTime         100; // of them\nwriteInterval 100;\n")
    commands = [*itself.MORE["WordCount"].filled_in(10)["input"], *itself.MORE["OpenFOAM"].filled_in(10)["reset"]]
    subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=tmp_path, check=True)
    assert (tmp_path / "more.txt").stat().st_size == 11000
    assert control.read_text() == "startTime 0;\nendTime 110;\nwriteInterval 100;\n"


def test_an_unknown_check_and_one_without_more_work_are_refused(capsys):
    with pytest.raises(SystemExit, match="no check Nothing: there are .*DB12, "):
        itself.parse(["Nothing"])
    with pytest.raises(SystemExit):
        itself.parse(["--more", "10", "HPL"])
    assert "no way is known to give HPL more work" in capsys.readouterr().err


# The files.


def test_a_session_can_be_of_one_check(tmp_path):
    twice.write_checks(tmp_path / "checks", ["HPL", "StartUp"])
    assert re.findall(r"^- (\w+)", listing(tmp_path, check="HPL"), re.MULTILINE) == ["HPL"]


def test_checks_that_belong_to_the_full_axes_are_left_out():
    assert "GROMACS" in twice.applications()
    assert "GROMACSThreads" not in twice.applications()


# A real session.


def test_what_somebody_stops_counts_as_far_as_it_came(monkeypatch, capsys):
    answers = [[case(rate="pass")], twice.Stopped("SIGINT")]

    def run(*_):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(twice.Sessions, "run", run)
    tallies, broken = itself.measure(["HPL"], 5, 0, [])
    assert (len(tallies["HPL"].cases), broken) == (1, 0)
    assert capsys.readouterr().out.splitlines()[-1] == "stopped by SIGINT: the sessions before it count"


# What is counted.


def case(after=6, seconds=30.0, check="HPL", **verdicts):
    """Return a case, by figure with its verdict."""
    common = {"accepted": (None, 5.0), "overhead_unit": "%", "overhead": 1.0, "rounds": 8}
    common.update({"spread": 2.0, "correlation": None})
    rows = [Row(figure, verdict=verdict, **common) for figure, verdict in verdicts.items()]
    pairs = {
        figure: {
            "compare": "ratio",
            "decided_after": None if verdict == "inconclusive" else after,
            "changes": [0.01, -0.01],
        }
        for figure, verdict in verdicts.items()
    }
    return twice.Case(check, rows, seconds, {"pairs": pairs, "seconds": [2.0, 3.0, 2.5]})


def test_verdicts_of_a_program_against_itself_are_counted():
    tally = itself.Tally([case(6, 20, a="pass", b="inconclusive"), case(9, 40, a="pass", b="fail")])
    lines = itself.summary({"HPL": tally})
    assert [line.split() for line in lines[1:3]] == [
        ["HPL", "a", "5", "%", "+1", "2", "2", "0", "0", "7.5", "30"],
        ["b", "5", "%", "+1", "2", "0", "1", "1", "9"],
    ]
    assert lines[-1] == "total: 1 false failures (must be 0); 3 of 4 comparisons closed (75 %)"


def test_more_work_is_found_missed_or_left_open():
    cases = [
        case(12, 50, a="fail", b="inconclusive", c="inconclusive"),
        case(a="pass", b="pass", c="inconclusive"),
        case(a="pass", b="inconclusive", c="pass"),
        # What has no more work must not fail.
        case(a="pass", b="inconclusive", c="fail"),
    ]
    tally = itself.Tally(cases, frozenset("ab"))
    assert {word: len(found) for word, found in tally.found().items()} == {"found": 1, "missed": 1, "open": 2}
    assert tally.false_failures() == 1
    assert itself.detection("HPL", tally, 10) == (
        "HPL, 10 % more work, 4 sessions: found in 1 (8 rounds, 50 s), missed in 1 (8 rounds, 30 s), "
        "open in 2 (8 rounds, 30 s)"
    )


def raw(result, **facts):
    return {"display_name": "HPL %variant=bare", "partition": "one", "result": result, **facts}


def stored(**verdicts):
    """Return figures as ReFrame stores them, by figure with its verdict."""
    return [row.to_json() for row in case(**verdicts).rows]


def read_one(**facts):
    (found,) = twice.read({"runs": [{"testcases": [raw(**facts)]}]})
    return found


def test_a_session_says_what_went_wrong():
    failed = read_one(result="fail", fail_phase="sanity", fail_reason="round 1,\n subject: hangs")
    assert itself.line(failed) == "HPL BROKEN: sanity: round 1, subject: hangs"
    assert itself.line(read_one(result="skip", skip_reason="no software")) == "HPL skipped: no software"
    slow = read_one(result="fail", fail_phase="performance", results=stored(a="fail", b="pass"))
    assert itself.line(slow) == "HPL FAILS (a), 8 rounds, 0 s"
    # A reference of the site's own that is not met is no verdict.
    assert read_one(result="fail", fail_phase="performance", results=stored(a="pass")).broken


def test_where_nothing_is_judged_nothing_counts_as_passed():
    found = read_one(result="pass", results=stored(a="emulated", b="emulated"))
    assert itself.line(found) == "HPL skipped: the processors are emulated, and nothing is judged there"


def test_partitions_are_told_apart():
    cases = twice.read({"runs": [{"testcases": [raw("pass"), raw("pass", partition="other")]}]})
    assert [case.check for case in cases] == ["HPL on one", "HPL on other"]


# Arithmetic of the noise.

amounts = st.floats(0.01, 100)


def test_the_examples_of_the_docstrings_hold():
    assert doctest.testmod(noise) == (0, 3)


@given(amounts, amounts, st.integers(1, 1000), st.integers(2, 10))
def test_costs_and_variances_come_back(fixed, each, short, factor):
    long = short * factor
    costs = noise.cost(short, long, fixed + each * short, fixed + each * long)
    assert (costs.start, costs.iteration) == pytest.approx((fixed, each), rel=1e-6, abs=1e-6 * each * long)
    parts = noise.parts(short, long, fixed + each / short, fixed + each / long)
    assert parts == pytest.approx((fixed, each), rel=1e-6, abs=1e-6 * fixed * long)


@given(amounts, amounts, amounts, amounts, st.floats(0.1, 10))
def test_no_other_length_closes_sooner(start, iteration, between, within, factor):
    assume(abs(math.log(factor)) > 1e-3)

    def seconds_to_close(length):
        """Rounds grow with the variance of a run, and each costs a run."""
        return (start + iteration * length) * (between + within / length)

    best = noise.soonest(Cost(start, iteration), between, within)
    assert seconds_to_close(best) < seconds_to_close(best * factor)


def test_noise_that_does_not_fit_the_model_has_no_negative_part():
    assert noise.cost(1, 4, 3.0, 2.0) == Cost(3.0, 0.0)
    assert noise.cost(1, 4, 1.0, 8.0).start == 0
    assert noise.parts(1, 4, 1.0, 3.0) == (2.0, 0.0)
    assert noise.parts(1, 4, 4.0, 0.5) == (0.0, 3.0)
    assert noise.soonest(Cost(1.0, 1.0), 1.0, 0.0) == 0
    assert noise.soonest(Cost(1.0, 1.0), 0.0, 1.0) == math.inf
    assert [noise.of_length(seconds, noise.LENGTHS["HPL"]) for seconds in (0, math.inf, 3.21)] == [
        "shortest",
        "longest",
        "3.2 solutions",
    ]


def test_the_variance_of_a_run_is_half_that_of_pairs():
    source = random.Random(1)
    changes = [source.gauss(0, 0.03) - source.gauss(0, 0.03) for _ in range(4000)]
    assert noise.variance(changes, "ratio") == pytest.approx(9, rel=0.1)
    assert noise.variance([2.0, -2.0], "difference") == 2


def test_the_table_of_a_check_with_two_lengths_and_of_one_without():
    lines = noise.compared(noise.LENGTHS["HPL"], case(a="pass"), case(a="pass"))
    assert lines[0] == (
        "HPL: a start costs 2.5 s, each of the solutions (repeats) 0 s: runs of 2 and 8 take 2.5 and 2.5 s; "
        "8 and 8 rounds"
    )
    assert lines[2].split() == ["a", "5", "%", "2", "-", "0.71", "0", "shortest", "*"]
    lines = noise.of_one_length(case(a="pass", b="pass"))
    assert lines[0] == "HPL: no variable sets its length; a run takes 2.5 s (8 rounds)"
    assert lines[2].split() == ["a", "5", "%", "2", "-", "-", "-", "*"]


def test_the_command_is_reached_by_its_name():
    text = (REPOSITORY / "ci" / "benchmark").read_text()
    usage = subprocess.run(
        [str(REPOSITORY / "ci" / "benchmark"), "nothing"], text=True, capture_output=True, env=dict(os.environ)
    )
    assert "itself|noise" in usage.stderr
    assert "ci/benchmark itself" in text and "ci/benchmark noise" in text
