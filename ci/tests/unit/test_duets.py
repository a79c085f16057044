"""Duet rounds: who may have them, and what the verdict makes of two runs of each side at the same time."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import evaluation_of, facts_of, findings_of, record_of, run_of
from containercheck import Metric
from containercheck.job.container_runtimes import by_name
from containercheck.job.verdict import findings
from containercheck.sides import rounds
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from hypothesis import given
from hypothesis import strategies as st

SITE = Site("here:only", is_here=True, architecture="x86_64", cores=4, gpus=0, memory_per_node=8 << 30)
RATE = Metric("rate", r"^rate (\S+)", "x", duet=True)
TIME = Metric("time", r"^time (\S+)", "s", better="lower", duet=True)
WAIT = Metric("wait", r"^wait (\S+)", "s", better="lower", compare="difference", tolerance=0.5, duet=True)
START = Metric("start", r"^start (\S+)", "s", better="lower")
DUET = {"cores": 1, "stagedir": "/stage"}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Have a machine with four processors."""
    monkeypatch.setattr(rounds, "usable_processors", lambda: 4)
    monkeypatch.setattr(rounds, "on_hypervisor", lambda: True)


def duet(wanted=True, gains=False, site=SITE, metrics=(RATE, TIME), **facts):
    return rounds.is_duet(wanted, gains, metrics, rounds.can_be_duet(site, metrics, **facts))


def test_each_side_has_half_of_the_cores_and_of_the_memory():
    half = rounds.half_of(SITE)
    layout = Layout.on(half, 1, None, 1, 1)
    assert (layout.ranks, half.cores, half.memory) == (2, 2, 4 << 30)
    assert layout.bound_by("mpirun") == ["--bind-to none"]


def test_metrics_of_a_duet_have_the_spread_that_was_measured_there():
    less = replace(RATE, spread=6.0, duet_spread=3.0)
    compared = rounds.duet_metrics([less, replace(TIME, spread=6.0), START])
    assert [(metric.name, metric.spread) for metric in compared] == [("rate", 3.0), ("time", 6.0)]


def test_metrics_that_cannot_be_compared_so_are_named():
    assert rounds.duet_note([RATE, START]).endswith("halves swapped; not compared so: start (-S duet=no)")
    assert rounds.duet_note([RATE]).endswith("halves swapped")


@pytest.mark.parametrize(
    "facts",
    [
        {"sides": 3},
        {"nodes": 2},
        {"metrics": [START]},
        {"runtime": by_name("Docker")},
        {"site": replace(SITE, is_here=False)},
        {"site": replace(SITE, cores=1)},
        {"site": replace(SITE, cores=None)},
        # The session may use only a part of the machine.
        {"site": replace(SITE, cores=8)},
    ],
)
def test_a_check_that_cannot_be_a_duet_is_skipped_if_one_is_wanted(facts):
    with pytest.raises(LayoutError, match="cannot be measured as a duet: that takes two sides, "):
        duet(**facts)
    assert not duet(None, True, **facts)


@pytest.mark.parametrize(
    ("facts", "is_virtual", "found"),
    [
        ({}, True, True),
        # On a real node, of a check that does not gain, or where a metric would be left out.
        ({}, False, False),
        ({"gains": False}, True, False),
        ({"metrics": [RATE, START]}, True, False),
        ({"wanted": False}, True, False),
        ({"wanted": True, "gains": False, "metrics": [RATE, START]}, False, True),
    ],
)
def test_both_run_at_once_by_default_where_the_check_gains_by_that_on_a_virtual_machine(
    monkeypatch, facts, is_virtual, found
):
    monkeypatch.setattr(rounds, "on_hypervisor", lambda: is_virtual)
    assert duet(**{"wanted": None, "gains": True, **facts}) == found


def measured(rounds, metric):
    """Return what is read of rounds: of each run its round, side, place in it, and the metric's value."""
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for number, (round_, side, value) in enumerate(rounds):
            output = Path(directory, str(number))
            output.mkdir()
            (output / "out").write_text(f"{metric.name} {value!r}\n")
            (output / "err").write_text("")
            runs.append(run_of(side, output.name, round_))
        return evaluation_of(record_of(*runs), facts_of([metric], duet=DUET), Path(directory))


FACTORS = st.floats(0.2, 5)


@given(FACTORS, FACTORS, FACTORS, FACTORS, st.sampled_from([RATE, TIME, WAIT]))
def test_what_disturbs_both_sides_and_a_half_that_is_slower_cancel(disturbed, again, slower, overhead, metric):
    """The pair is the overhead, whatever the host did in each part of the round, and to each half."""
    join = math.fsum if metric is WAIT else math.prod
    rounds = [
        (1, "baseline", join([10, disturbed])),
        (1, "subject", join([10, disturbed, slower, overhead])),
        (1, "subject", join([10, again, overhead])),
        (1, "baseline", join([10, again, slower])),
    ]
    found = measured(rounds, metric)
    (change,) = found.pairs["subject", metric.name].changes
    expected = overhead if metric is WAIT else math.log(overhead)
    assert change == pytest.approx(-expected if metric is RATE else expected, abs=1e-9)
    # Two at the same time.
    assert found.seconds == 2


def test_a_round_counts_when_both_sides_had_both_halves():
    half = [(1, "baseline", 1.0), (1, "subject", 2.0)]
    assert measured(half, TIME).rounds == []
    assert measured([*half, (1, "subject", 2.0)], TIME).rounds == []
    assert len(measured([*half, (1, "subject", 2.0), (1, "baseline", 1.0)], TIME).rounds) == 1


def test_ranks_that_leave_their_half_are_told():
    assert findings.stray_problem(run_of("subject", "", bound=["2", "3"], processors="2-3")) is None
    assert findings.stray_problem(run_of("subject", "", bound=["0-3"])) is None
    assert findings.stray_problem(run_of("subject", "", bound=[], processors="2-3")) is None
    said = findings.stray_problem(run_of("subject", "", bound=["0", "1"], processors="2-3"))
    assert said.startswith("round 1, subject: its ranks are bound to 0 | 1, outside of its half of the node, 2-3: ")
    strayed = record_of(run_of("subject", "", bound=["0"], processors="1"))
    assert findings_of(strayed, []).binding_problems() != []
