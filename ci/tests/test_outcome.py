"""From the record of the rounds to problems and verdicts."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from containercheck import Answer, Figure, outcome

RATE = Figure("rate", r"^rate (\S+)", "x")
RANKS = Answer("ranks", r"^ranks (\d+)")
HOST = {"/usr/lib/libmpi.so.40": {"device": "fe:00", "inode": 7, "pids": [1]}}
IMAGE = {"/usr/lib/libmpi.so.40": {"device": "00:31", "inode": 9, "pids": [2]}}


@pytest.fixture
def record(tmp_path):
    outputs = itertools.count()

    def make(*runs):
        made = []
        for number, (side, text, facts) in enumerate(runs):
            output = tmp_path / f"{next(outputs)}-{side}"
            output.mkdir()
            (output / "out").write_text(text)
            (output / "err").write_text("")
            run = {"round": number // 2 + 1, "side": side, "seconds": 1.0, "status": 0, "timed_out": False, "mpi": {}}
            made.append({**run, "output": output.name, **facts})
        return {"limit": 10, "host": "here", "complete": True, "runs": made}

    return make


def evaluate(record, tmp_path, **facts):
    arguments = {"figures": [RATE], "answers": [], "rank_count": None, "ranks": 1, **facts}
    return outcome.evaluate(record, tmp_path, **arguments)


def test_figures_are_collected_in_the_order_of_the_rounds(record, tmp_path):
    runs = [("baseline", "rate 1\n", {}), ("subject", "rate 2\n", {}), ("subject", "rate 4\n", {})]
    result = evaluate(record(*runs, ("baseline", "rate 3\n", {})), tmp_path)
    assert result.problems == []
    assert result.figures == {"rate": {"baseline": [1, 3], "subject": [2, 4]}}


def test_a_lost_figure_is_a_problem_even_if_the_program_says_it_does_not_apply(record, tmp_path):
    figure = Figure("rate", r"^rate (\S+)", "x", absent="^none$")
    result = evaluate(record(("baseline", "rate 1\n", {}), ("subject", "none\n", {})), tmp_path, figures=[figure])
    assert result.problems == []
    runs = [("baseline", "rate 1\n", {}), ("subject", "none\n", {}), ("subject", "rate 1\n", {})]
    result = evaluate(record(*runs, ("baseline", "rate 1\n", {})), tmp_path, figures=[figure])
    assert result.problems == ["figure rate is missing in some runs: {'baseline': 2, 'subject': 1}"]


def test_a_missing_rank_is_a_problem(record, tmp_path):
    runs = [("baseline", "ranks 4\nrate 1\n", {}), ("subject", "ranks 3\nrate 1\n", {})]
    result = evaluate(record(*runs), tmp_path, rank_count=RANKS, ranks=4)
    (problem,) = result.problems
    assert "round 1, subject: ran with 3 ranks instead of 4" in problem


def test_the_hosts_library_is_told_from_the_images_by_what_is_mapped(record):
    def runs(subject):
        return record(("baseline", "", {"mpi": HOST}), ("subject", "", {"mpi": subject}))

    plan = {"path": "/usr/lib/libmpi.so.40"}
    moved = {"/host/usr/lib/libmpi.so.40": HOST["/usr/lib/libmpi.so.40"]}
    cases = [
        (moved, plan, None),
        (IMAGE, plan, "not the host's"),
        (IMAGE, None, None),
        (moved, None, "the host's /host"),
    ]
    for subject, host_mpi, said in cases:
        problem = outcome.mpi_problem(runs(subject), host_mpi)
        assert problem is None if said is None else said in problem


def test_what_was_not_seen_is_not_proven(record):
    unseen = record(("baseline", "", {"mpi": HOST}), ("subject", "", {"mpi": {}}))
    assert "no process with an MPI library was seen" in outcome.mpi_problem(unseen, None)


def compared(baseline, subject, expected=None, figures=1):
    names = [f"rate{number}" for number in range(figures)]
    result = outcome.Outcome(figures={name: {"baseline": list(baseline), "subject": list(subject)} for name in names})
    facts = [Figure(name, r"(\S+)", "x") for name in names]
    return outcome.compare(facts, result, 5.0, expected or {})


def test_an_expected_overhead_passes_and_its_disappearance_fails():
    (one,) = compared([100, 101, 99], [10, 10.1, 9.9], {"rate0": (80, 99)})
    assert (one.verdict, one.expected) == ("pass", True)
    (one,) = compared([100, 101, 99], [100, 101, 99], {"rate0": (80, 99)})
    assert one.verdict == "fail"
    assert outcome.failures([one])[0].endswith("which needs a new value")


def test_an_unclear_verdict_says_how_many_rounds_would_tell():
    (one,) = compared([100, 100, 100, 100], [90, 101, 97, 99])
    assert one.verdict == "inconclusive"
    assert re.search(r": inconclusive, about \d+ rounds would tell$", outcome.doubts([one])[0])
    (one,) = compared([100, 100, 100, 100], [40, 240, 95, 104])
    assert outcome.doubts([one])[0].endswith("and 100 rounds would not tell: its runs differ too much")


def test_false_alarms_of_a_check_with_many_figures_stay_rare():
    # The worst case for the promise: the true overhead is the tolerance itself, in each of fourteen figures.
    generator = np.random.default_rng(11)
    alarms = 0
    sessions = 400
    for _ in range(sessions):
        baseline = np.exp(generator.normal(0, 0.1, (14, 5)))
        subject = 0.95 * np.exp(generator.normal(0, 0.1, (14, 5)))
        figures = {f"rate{n}": {"baseline": list(baseline[n]), "subject": list(subject[n])} for n in range(14)}
        facts = [Figure(name, r"(\S+)", "x") for name in figures]
        comparisons = outcome.compare(facts, outcome.Outcome(figures=figures), 5.0, {})
        alarms += bool(outcome.failures(comparisons))
    expected = 0.025 * sessions
    assert alarms <= expected + 4 * math.sqrt(expected)
