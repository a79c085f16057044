"""What a run works on, how long a job may take, and what sessions are expected to cost."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
from conftest import REPOSITORY
from containercheck.application.allowance import FAILURES, LEAST_MEMORY, SLOW_START, START, Run, allow, resources
from containercheck.application.declare import Work
from containercheck.results.cases import Case
from containercheck.session import estimate
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from hypothesis import given
from hypothesis import strategies as st

SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=48, gpus=0)
GROWING = Work(
    "atoms",
    min_amount=1000,
    amount_per_core=100,
    max_amount=10000,
    fixed_seconds=1,
    serial_seconds_per_unit=1e-3,
    parallel_seconds_per_unit=1e-2,
    setup_seconds_per_unit=1e-4,
    bytes_per_unit=10,
)
RUN = Run("atoms", 1000, 1e9, before=5, seconds=10, limit=300)


@given(st.integers(1, 100))
def test_a_core_has_as_much_whatever_their_number(cores):
    amount = GROWING.amount(cores)
    assert amount == (100 * cores if cores >= 10 else 1000)
    assert GROWING.seconds(amount, cores) == pytest.approx(1 + amount * 1e-3 + amount / cores * 1e-2)


@given(st.integers(1, 2000))
def test_an_input_of_whole_boxes_is_the_next_larger_cube_of_them(cores):
    """What the job says that it works on is what the input really has."""
    work = Work("atoms", min_amount=27 * 648, amount_per_core=400, max_amount=12**3 * 648, cube_unit=648)
    edge = next(edge for edge in range(1, 20) if edge**3 * 648 >= max(27 * 648, min(400 * cores, 12**3 * 648)))
    assert work.amount(cores) == edge**3 * 648
    assert replace(work, cube_unit=0.0).amount(cores) == max(27 * 648, min(400 * cores, 12**3 * 648))


def test_a_run_is_estimated_on_its_layout():
    layout = Layout(nodes=2, ranks_per_node=4, threads=3)
    run = Run.of(GROWING, GROWING.amount(layout.cores), layout, limit=300)
    assert (run.unit, run.amount, run.before) == ("atoms", 2400, pytest.approx(0.24))
    assert run.memory == pytest.approx(2400 * 10 / 2 + 12 * 50e6)
    assert run.seconds == pytest.approx(1 + 2.4 + 1)
    whole = Run.of(replace(GROWING, bytes_per_node=3e9), 0, layout, limit=300)
    assert whole.memory == pytest.approx(3e9 + 12 * 50e6)
    # Where nobody knows, a part of the limit is expected.
    unknown = Run.of(None, None, Layout(1, 1, 1), limit=400)
    assert (unknown.unit, unknown.seconds) == ("", 100)


def test_a_job_may_take_its_rounds_and_what_fails_before_it_is_given_up():
    bare, pair = allow(SITE, 4, RUN, 1, 60, 0), allow(SITE, 4, RUN, 2, 60, 0)
    assert (bare.rounds, bare.expected, bare.at_most) == (0, START + 5 + 10, SLOW_START + 5 + FAILURES * 300)
    assert (pair.rounds, pair.expected) == (60, START + 5 + 60)
    assert pair.at_most == SLOW_START + 5 + 2 * 60 + FAILURES * 2 * 300


@pytest.mark.parametrize("limits", [{"time_limit": 100}, {"node_hours": 4 * 100 / 3600}])
def test_rounds_end_before_a_limit(limits):
    site = replace(SITE, time_limit=limits.get("time_limit"))
    found = allow(site, 4, RUN, 2, 600, limits.get("node_hours", 0))
    assert found.at_most == 100
    # What is left of the time confirms what fails.
    assert found.rounds == pytest.approx(0.6 * (90 - START - 5))


@pytest.mark.parametrize(
    ("site", "node_hours", "said"),
    [
        (replace(SITE, time_limit=30.0), 0, "the time limit of cluster:compute is 30 s"),
        (SITE, 0.01, "0.01 node-hours on 4 node(s) are 9 s"),
    ],
)
def test_a_job_that_has_no_time_for_one_round_is_not_begun(site, node_hours, said):
    with pytest.raises(LayoutError) as error:
        allow(site, 4, RUN, 2, 60, node_hours)
    assert str(error.value) == f"a job with one round takes about 40 s: {said}"


@pytest.mark.parametrize("sides", [1, 2])
def test_a_run_that_needs_more_memory_than_a_node_has_is_not_begun(sides):
    small = replace(SITE, memory_per_node=2 << 30)
    fits, large = replace(RUN, memory=2 << 30), replace(RUN, memory=45 << 30)
    assert allow(small, 1, fits, sides, 60, 0)
    with pytest.raises(LayoutError) as error:
        allow(small, 1, large, sides, 60, 0)
    assert str(error.value) == "needs about 45 GiB of memory on a node: cluster:compute has 2 GiB"
    # A guess of ours keeps nothing from running.
    assert (SITE.known_memory, SITE.memory) == (None, 16 << 30)
    assert allow(SITE, 1, large, sides, 60, 0)


@pytest.mark.parametrize(
    ("exclusive", "there", "needed", "size"),
    [
        (True, 96 << 30, 3 << 30, {"size": "98304M"}),
        (False, 96 << 30, 3 << 30, {"size": "6144M"}),
        (False, 96 << 30, 1, {"size": f"{LEAST_MEMORY >> 20}M"}),
        (False, 1 << 30, 1, {"size": "1024M"}),
        # What takes an input of the document's own, nobody knows.
        (False, 96 << 30, 0, {"size": "98304M"}),
        (True, None, 3 << 30, {"size": "6144M"}),
        (True, None, 0, {}),
    ],
)
def test_a_job_asks_for_memory(exclusive, there, needed, size):
    site = replace(SITE, exclusive=exclusive, memory_per_node=there)
    assert resources(site, replace(RUN, memory=needed)) == {"memory": size}


def case(name, nodes, expected, **facts):
    """Return a case of a dry run."""
    cost = {"ranks": 48 * nodes, "expected": expected, "at_most": 10 * expected, **facts}
    return Case((name, "", "", str(nodes)), name, {}, name, "compute", "bare", nodes, "pass", expected=cost)


def test_the_estimate_has_a_line_for_each_application_and_one_for_all():
    cases = [case("GROMACS", 2, 900, seconds=12.34), case("GROMACS", 2, 2700, seconds=12.34), case("Alya", 1, 1800)]
    heading, gromacs, alya, total = estimate.lines(cases)
    assert heading.split()[:3] == ["application", "nodes", "ranks"]
    assert gromacs.split() == ["GROMACS", "2", "96", "12", "s", "2", "2", "20"]
    assert alya.split() == ["Alya", "1", "48", "?", "1", "0.5", "5"]
    assert total == "3 job(s): about 2.5 node-hours, at most 25"


def test_every_check_says_how_its_input_grows():
    checks = [
        check
        for path in (REPOSITORY / "checks").glob("*.py")
        # What ReFrame runs, without the bases that checks of a file have in common.
        for check in importlib.import_module(path.stem)._rfm_test_registry._tests
    ]
    assert len(checks) > 20
    # Of a site's own program and input only the site knows.
    assert [check for check in checks if (check.work is None) != check.site_provides_input] == []


def test_together_run_only_cases_that_cannot_exceed_what_is_left():
    small, middle, large = case("Small", 1, 360), case("Middle", 2, 360), case("Large", 16, 360)
    cases = [small, middle, large]
    assert estimate.fitting(cases, 19) == ([small, middle, large], None)
    assert estimate.fitting(cases, 18.9) == ([small, middle], None)
    assert estimate.fitting([large, middle], 2) == ([middle], None)
    # One that may exceed it runs by itself, and is limited.
    assert estimate.fitting([middle, large], 1.9) == ([middle], 1.9)
    assert estimate.fitting([large, middle], 1.0) == ([middle], 1.0)
    assert estimate.fitting([large, middle], 0.1) == ([], None)
    assert estimate.fitting([], 1) == ([], None)


def test_what_was_spent_are_all_runs_of_all_nodes():
    first = replace(case("Small", 2, 360), job_seconds=1800)
    assert estimate.spent([replace(first, job_seconds=900, earlier=(first,)), case("Large", 16, 360)]) == 1.5
