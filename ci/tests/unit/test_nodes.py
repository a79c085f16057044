"""containercheck nodes: a bad node is named with its metric, and good ones never."""

from __future__ import annotations

from pathlib import Path

import made
import numpy as np
import pytest
from containercheck.command import main, nodes
from containercheck.command.nodes import Reading
from containercheck.session.reframe_process import Configuration
from hypothesis import given
from hypothesis import strategies as st

#: By how much good nodes may differ in a property: by less than is reported.
ALIKE = st.floats(0.98, 1.02)


def readings(values, better="higher", metric="STREAM", side="bare"):
    return [Reading(f"node{place}", ("p", metric, side), value, better) for place, value in enumerate(values)]


def named(found):
    return {(outlier.node, outlier.group[1]) for outlier in found}


@given(st.lists(st.lists(ALIKE, min_size=8, max_size=8), min_size=1, max_size=6))
def test_of_eight_good_nodes_none_is_named(metrics):
    made_readings = [each for number, values in enumerate(metrics) for each in readings(values, metric=str(number))]
    assert nodes.outliers(made_readings) == []


@given(st.lists(ALIKE, min_size=7, max_size=30), st.floats(0.5, 0.8), st.floats(1e-6, 1e9), st.booleans())
def test_a_slow_node_among_good_ones_is_named_whatever_the_unit_and_direction(good, slow, unit, is_time):
    values = [unit * (1 / value if is_time else value) for value in (slow, *good)]
    (outlier,) = nodes.outliers(readings(values, "lower" if is_time else "higher"))
    assert outlier.node == "node0"
    assert outlier.worse > 15


def test_two_bad_nodes_of_eight_are_both_named():
    draw = np.random.default_rng(1)
    values = [*(100 + draw.standard_normal(6)), 69.0, 60.0]
    assert named(nodes.outliers(readings(values))) == {("node6", "STREAM"), ("node7", "STREAM")}


def test_a_node_that_is_better_than_its_peers_is_not_named():
    assert nodes.outliers(readings([100.0] * 7 + [200.0])) == []


def test_with_too_few_peers_nobody_is_named():
    assert nodes.outliers(readings([100.0] * 4 + [10.0])) == []


def test_nodes_that_differ_by_chance_are_rarely_named():
    """Twenty metrics, bare and in containers, that scatter by 5 %."""
    draw = np.random.default_rng(2)
    sweeps = [
        [
            reading
            for number in range(40)
            for reading in readings(np.exp(0.05 * draw.standard_normal(8)), metric=str(number))
        ]
        for _ in range(60)
    ]
    assert sum(bool(nodes.outliers(sweep)) for sweep in sweeps) <= 3


# The command

X_IS_SET = {"rule": "variable", "about": "X", "sentence": "X=1 is set", "remedy": "unset it"}
HUNG = {"result": "fail", "fail_reason": "it hung", "causes": [X_IS_SET]}


def case(place, bare=100.0, container=99.0, **facts):
    rows = [made.row("STREAM", bare, subject=container)] if bare else []
    return made.case("HPCC", "generic", 1, rows, axes=f" %.part=cluster:compute %.nid=node{place}", **facts)


def concluded(capsys, *raw, problems=()):
    status = nodes.conclude(made.cases(raw), problems)
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({"bare": 69.0, "container": 68.0}, "node7: HPCC STREAM is 31 % worse than on its peers, bare and in cont"),
        ({"container": 69.0}, "node7: HPCC STREAM is 30 % worse than on its peers, in containers only: see its runt"),
        ({"bare": 69.0}, "node7: HPCC STREAM is 31 % worse than on its peers, bare only"),
        ({"bare": None, "result": "fail", "fail_reason": "it hung"}, "node7: HPCC failed: it hung"),
        # It had some good rounds.
        ({"result": "fail", "fail_phase": "sanity", "fail_reason": "answers differ"}, "node7: HPCC failed: answers di"),
        ({"bare": None, **HUNG}, "node7: HPCC failed: it hung; possible cause: X=1 is set; to try: unset it"),
    ],
)
def test_the_bad_node_is_named_with_its_metric_and_whether_only_containers_are_slow(capsys, bad, line):
    status, lines = concluded(capsys, *map(case, range(7)), case(7, **bad))
    assert status == 1
    assert [text.startswith(f"run: {line}") for text in lines] == [True], lines


@pytest.mark.parametrize("bad", [{"bare": 69.0}, {"bare": None, "result": "fail", "fail_reason": "it hung"}])
def test_what_differs_on_a_bad_node_is_shown(capsys, bad):
    def seeing(place, memory, **facts):
        sees = {"host": f"node{place}", "sees": {"bare": {"shared memory": memory, "kernel": "6.1"}}}
        return case(place, provenance=sees, **facts)

    cases = [*(seeing(place, "12 GiB") for place in range(7)), seeing(7, "1 MiB", **bad)]
    _, lines = concluded(capsys, *cases)
    assert lines[1:] == ["run: node7, unlike its peers: sees bare shared memory: 12 GiB -> 1 MiB"]


def test_good_nodes_are_fine_even_if_their_containers_are_slow(capsys):
    slow = {"container": 50.0, "result": "fail", "fail_phase": "performance", "fail_reason": "50 % worse than bare"}
    status, lines = concluded(capsys, *(case(place, **slow) for place in range(8)))
    assert (status, lines) == (0, ["run: no node is worse than its peers, of 8 nodes"])


def test_what_could_not_be_judged_is_not_fine(capsys):
    assert concluded(capsys)[0] == 2
    assert concluded(capsys, *map(case, range(8)), problems=["stopped by SIGTERM"])[0] == 2
    aborted = case(7, bare=None, result="abort", fail_reason="aborted due to KeyboardInterrupt")
    status, lines = concluded(capsys, *map(case, range(7)), aborted, problems=["stopped by SIGTERM"])
    assert (status, lines[0]) == (2, "run: stopped by SIGTERM")
    status, lines = concluded(capsys, *map(case, range(5)))
    assert status == 2
    assert lines[0] == "run: compute has 5 nodes: to name one takes 6"
    # Two good nodes and a bad one: none of them is named.
    status, lines = concluded(capsys, case(0), case(1), case(2, bare=50.0, container=49.0))
    assert (status, lines) == (2, ["run: compute has 3 nodes: to name one takes 6"])


def of_schedulers(monkeypatch, *schedulers):
    partitions = [{"name": f"part{place}", "scheduler": name} for place, name in enumerate(schedulers)]
    system = {"name": "cluster", "partitions": partitions}
    configured = Configuration(system, Path(), None, Path(), (), ())
    monkeypatch.setattr(nodes.reframe_process, "configuration", lambda *_: configured)


def test_a_system_whose_nodes_cannot_be_listed_is_refused_with_what_to_do(monkeypatch, tmp_path, capsys):
    of_schedulers(monkeypatch, "slurm", "local")
    assert main.run("nodes", [], nodes.Workplace(tmp_path)) == 64
    assert capsys.readouterr().err == (
        "nodes: error: only Slurm lists its nodes, and part1 has another scheduler: choose a partition of Slurm, "
        "--system=SYSTEM:PARTITION\n"
    )


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), ["-n", nodes.CHECKS, "-S", "seconds=30", "--distribute=avail"]),
        (("-n", "DGEMM", "--distribute=all"), ["-S", "seconds=30", "-n", "DGEMM", "--distribute=all"]),
        (("--estimate",), ["-n", nodes.CHECKS, "-S", "seconds=30", "--distribute=avail", "--estimate"]),
    ],
)
def test_a_sweep_is_a_session_with_a_report_of_its_own(monkeypatch, tmp_path, words, given):
    sessions = []
    monkeypatch.setattr(nodes.run, "session", lambda *arguments: sessions.append(arguments) or 0)
    of_schedulers(monkeypatch, "slurm", "squeue")
    assert main.run("nodes", words, nodes.Workplace(tmp_path)) == 0
    ((arguments, own, _),) = sessions
    assert arguments == given
    assert own.report == tmp_path / "reports" / "nodes" / "run-report.json"


@pytest.mark.parametrize(
    ("again", "status", "line"),
    [
        ([case(7, bare=70.0)], 1, "nodes: node7: HPCC STREAM is 30 % worse than on its peers, bare only"),
        # The first job was disturbed; or the second one did not run.
        ([case(7)], 0, "nodes: no node is worse than its peers, of 8 nodes"),
        ([], 1, "nodes: node7: HPCC STREAM is 50 % worse than on its peers, bare only"),
    ],
)
def test_a_node_is_named_if_two_jobs_show_it(monkeypatch, tmp_path, capsys, again, status, line):
    """Of two such nodes, one was only disturbed."""
    turns = [[*map(case, range(6)), case(6, container=60.0), case(7, bare=50.0)], [case(6), *again]]
    sessions = []

    def session(arguments, own, conclude):
        sessions.append((arguments, own.report.name))
        return conclude(made.cases(turns[len(sessions) - 1]), [])

    monkeypatch.setattr(nodes.run, "session", session)
    of_schedulers(monkeypatch, "slurm")
    assert main.run("nodes", [], nodes.Workplace(tmp_path)) == status
    (words, report), (more, other) = sessions
    assert more == [*words, "-J", "nodelist=node6,node7"]
    assert report != other
    assert capsys.readouterr().out.splitlines() == ["nodes: worse than their peers, and run again: node6, node7", line]
