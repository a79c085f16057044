"""Duet rounds: who may have them, and what the verdict makes of two runs of each side at the same time."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import evaluation_of, facts_of, findings_of, record_of, run_of
from containercheck import Figure
from containercheck.node.container_runtimes import by_name
from containercheck.node.stats.scale import middle
from containercheck.node.verdict import binding
from containercheck.sides import duets
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from hypothesis import given
from hypothesis import strategies as st
from reframe.core.exceptions import ReframeError

SITE = Site("here:only", is_here=True, architecture="x86_64", cores=4, gpus=0, memory_per_node=8 << 30)
RATE = Figure("rate", r"^rate (\S+)", "x", duet=True)
TIME = Figure("time", r"^time (\S+)", "s", better="lower", duet=True)
WAIT = Figure("wait", r"^wait (\S+)", "s", better="lower", compare="difference", tolerance=0.5, duet=True)
START = Figure("start", r"^start (\S+)", "s", better="lower")
CASE = duets.Case(nodes=1, sides=2, figures=[RATE, TIME])
DUET = {"cores": 1, "stagedir": "/stage"}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Have a virtual machine with four processors."""
    monkeypatch.setattr(duets, "usable_processors", lambda: 4)
    monkeypatch.setattr(duets, "is_virtual", lambda _cpuinfo: True)


def choose(asked="yes", site=SITE, ranks=None, **facts):
    return duets.choose(asked, site, replace(CASE, **facts), lambda own: Layout.on(own, 1, ranks, 1, 1))


def test_each_side_has_half_of_the_cores_and_of_the_memory():
    found = choose()
    assert (found.at_once, found.layout.ranks, found.site.cores, found.site.memory) == (True, 2, 2, 4 << 30)
    assert found.layout.bound_by("mpirun") == ["--bind-to none"]
    assert found.facts("/stage") == {"cores": 2, "stagedir": "/stage"}
    turns = choose("no")
    assert (turns.at_once, turns.layout.ranks, turns.site, turns.note) == (False, 4, SITE, "")
    assert turns.facts("/stage") is None


def test_figures_that_cannot_be_compared_so_are_named():
    found = choose(figures=[RATE, START])
    assert found.figures == [RATE]
    assert found.note.endswith("halves swapped; not compared so: start (-S duet=no)")
    assert choose().note.endswith("halves swapped")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"sides": 3}, "3 sides are compared"),
        ({"nodes": 2}, "it runs on several nodes"),
        ({"figures": [START]}, "none of its figures can be compared so"),
        ({"gpus": True}, "both sides would share its GPUs"),
        ({"unpacked": True}, "its image is a directory of the stage directory, of which each side would need its own"),
        ({"runtime": by_name("Docker")}, "Docker has a daemon start the container, wherever it likes"),
        ({"site": replace(SITE, is_here=False)}, "jobs of here:only run under a scheduler, which places ranks itself"),
        ({"site": replace(SITE, cores=1)}, "here:only has no two cores"),
        ({"site": replace(SITE, cores=None), "ranks": 1}, "here:only has no two cores"),
        ({"site": replace(SITE, cores=8)}, "this session may use 4 of its 8 cores"),
        ({"ranks": 3}, "on half of a node it needs 3 cores per node: here:only has 2"),
    ],
)
def test_the_sides_take_turns_where_they_cannot_run_at_the_same_time_and_the_reason_is_told(facts, why):
    found = choose(**facts)
    assert (found.at_once, found.note) == (False, f"not measured as a duet: {why}")
    # Nobody asked for it.
    assert choose("auto", **facts).note == ""


def test_one_side_has_nothing_to_be_compared_with():
    assert (choose(sides=1).at_once, choose(sides=1).note) == (False, "")


def test_a_program_that_fits_no_node_does_not_fit_a_half():
    with pytest.raises(LayoutError, match="needs 9 cores per node: here:only has 4"):
        choose(ranks=9)


def test_what_else_is_asked_for_is_an_error():
    with pytest.raises(ReframeError, match="duet is 'maybe', not 'yes', 'no', 'auto'"):
        choose("maybe")


def test_auto_is_for_virtual_machines_and_loses_no_figure(monkeypatch):
    assert choose("auto").at_once
    assert not choose("auto", figures=[RATE, START]).at_once
    monkeypatch.setattr(duets, "is_virtual", lambda _cpuinfo: False)
    assert not choose("auto").at_once


def measured(rounds, figure):
    """Return what is read of rounds: of each run its round, side, place in it, and the figure's value."""
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for number, (round_, side, value) in enumerate(rounds):
            output = Path(directory, str(number))
            output.mkdir()
            (output / "out").write_text(f"{figure.name} {value!r}\n")
            (output / "err").write_text("")
            runs.append(run_of(side, output.name, round_))
        return evaluation_of(record_of(*runs), facts_of([figure], duet=DUET), Path(directory))


FACTORS = st.floats(0.2, 5)


@given(FACTORS, FACTORS, FACTORS, FACTORS, st.sampled_from([RATE, TIME]))
def test_what_disturbs_both_sides_and_a_half_that_is_slower_cancel(disturbed, again, slower, overhead, figure):
    """The pair is the overhead, whatever the host did in each part of the round, and to each half."""
    rounds = [
        (1, "baseline", 10 * disturbed),
        (1, "subject", 10 * disturbed * slower * overhead),
        (1, "subject", 10 * again * overhead),
        (1, "baseline", 10 * again * slower),
    ]
    found = measured(rounds, figure)
    (change,) = found.pairs["subject", figure.name].changes
    assert change == pytest.approx((-1 if figure is RATE else 1) * math.log(overhead), abs=1e-9)
    # Two at the same time.
    assert found.seconds == 2


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 5))
def test_the_same_cancels_in_differences(disturbed, again, slower, overhead):
    rounds = [
        (1, "subject", 10 + disturbed + overhead),
        (1, "baseline", 10 + disturbed + slower),
        (1, "baseline", 10 + again),
        (1, "subject", 10 + again + slower + overhead),
    ]
    (change,) = measured(rounds, WAIT).pairs["subject", "wait"].changes
    assert change == pytest.approx(overhead, abs=1e-9)


@given(st.lists(FACTORS, min_size=1, max_size=4))
def test_the_middle_of_equal_values_is_the_value_and_lies_between_others(values):
    for compare in ("ratio", "difference"):
        assert middle(values[:1], compare) == values[0]
        assert min(values) * (1 - 1e-12) <= middle(values, compare) <= max(values) * (1 + 1e-12)


def test_a_round_counts_when_both_sides_had_both_halves():
    half = [(1, "baseline", 1.0), (1, "subject", 2.0)]
    assert measured(half, TIME).rounds == []
    assert measured([*half, (1, "subject", 2.0)], TIME).rounds == []
    assert len(measured([*half, (1, "subject", 2.0), (1, "baseline", 1.0)], TIME).rounds) == 1


def test_a_run_that_was_ended_with_the_other_one_is_no_failure_of_its_own(tmp_path):
    failed = run_of("subject", "failed", status=3)
    (tmp_path / "failed").mkdir()
    ended = run_of("baseline", "ended", status=143, ended_with="subject")
    found = evaluation_of(record_of(failed, ended), facts_of([TIME], duet=DUET), tmp_path)
    assert [problem.side for problem in found.problems] == ["subject"]
    assert found.rounds == []


def test_ranks_that_leave_their_half_are_told():
    assert binding.stray(run_of("subject", "", bound=["2", "3"], processors="2-3")) is None
    assert binding.stray(run_of("subject", "", bound=["0-3"])) is None
    assert binding.stray(run_of("subject", "", bound=[], processors="2-3")) is None
    said = binding.stray(run_of("subject", "", bound=["0", "1"], processors="2-3"))
    assert said.startswith("round 1, subject: its ranks are bound to 0 | 1, outside of its half of the node, 2-3: ")
    strayed = record_of(run_of("subject", "", bound=["0"], processors="1"))
    assert findings_of(strayed, []).binding_problems() != []


def test_figures_that_a_check_changes_after_its_setup_count():
    """OpenFOAM takes one away for a single rank, and compares others by ratio in the full axes."""
    assert choose("no", figures=[RATE, START]).with_figures([START]).figures == [START]
    assert choose(figures=[RATE, START]).with_figures([TIME, START]).figures == [TIME]
