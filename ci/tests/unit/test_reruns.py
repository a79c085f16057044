"""Reruns of a night on other nodes: which cases run again, on which nodes, and what is said of the nodes."""

from __future__ import annotations

import json

import made
import pytest
from conftest import REPOSITORY, write_program
from containercheck.command import nightly
from containercheck.history import causes, change_points
from containercheck.history.nights import nights
from containercheck.history.series import OVERHEAD, series
from containercheck.report import push, view
from containercheck.report.page import cases as page_cases
from containercheck.results import earlier_sessions, selections
from containercheck.results.cases import on_nodes
from containercheck.site import jobs
from made_nights import DAY, NOON, confirming, raw, row, session
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import Job

FAILED = {"result": "fail", "fail_phase": "performance", "fail_reason": "rate is 34 % worse than bare"}
NODE3 = "only on node3; not on node5: look at node3 (containercheck nodes)"


def on(*nodes, **facts):
    return {"job_nodelist": [*nodes], "scheduler": "slurm", **facts}


def runs(*facts, name="Code", **more):
    """Return the case that ran so often, each time with these facts."""
    (case,) = made.cases(*([made.case(name, **each, **more)] for each in facts))
    return case


# What is said


@pytest.mark.parametrize(
    ("bad", "good", "text"),
    [
        ([["node3"]], [["node5"]], NODE3),
        ([["node3"], ["node5"]], [], "on node3 and on node5"),
        ([["node3"], ["node3"]], [["node5"]], NODE3),
        ([["a", "b"]], [["c", "d"]], "only on a, b; not on c, d: look at a, b (containercheck nodes)"),
        # Nothing about nodes is known.
        ([["node3"]], [["node3"]], ""),
        ([["a", "b"]], [["b", "c"]], ""),
        ([["node3"]], [], ""),
        ([[]], [["node5"]], ""),
        ([["None"]], [["node5"]], ""),
    ],
)
def test_a_defect_is_of_a_node_only_if_another_one_does_not_show_it(bad, good, text):
    bad, good = ([made.cases([made.case(**on(*nodes))])[0] for nodes in group] for group in (bad, good))
    assert on_nodes(bad, good) == text


@pytest.mark.parametrize(
    ("first", "again", "head", "line"),
    [
        (on("node3", **FAILED), on("node5"), "FAILED, and passed later: Code generic: rate", NODE3),
        (on("node3", **FAILED), on("node5", **FAILED), "FAILED: Code generic: rate", "on node3 and on node5"),
    ],
)
def test_a_failure_names_its_nodes_and_stays_if_another_node_passes(tmp_path, first, again, head, line):
    case = runs(first, again)
    printed = view.failure(case)
    assert printed[0].startswith(head)
    assert printed[1] == f"  {line}"
    assert nightly.Result("tonight", [case]).status == 1
    text = push.message(push.Outcome("nightly", 1, "", [case], tmp_path))
    assert f"- Code generic failed {line}" in text.splitlines()
    assert page_cases.remark(case, selections.failure(case)).endswith(f"It failed {line}.")
    # One machine has nothing to say about nodes.
    assert view.failure(runs(on("here", **FAILED), on("here", **FAILED)))[1:] == []


def measured(number, overhead, node):
    case = raw(row(overhead=overhead), job_nodelist=[node], provenance={"host": node})
    return session(case, began=NOON + number * DAY)


def again(overhead, node, hours):
    case = raw(row(overhead=overhead, rounds=16), job_nodelist=[node], provenance={"host": node})
    return confirming(case, began=NOON + 5 * DAY + 3600 * hours)


#: Five nights without a change, and one that is slower, all on node3.
STEADY = [measured(number, 1.0 + 0.1 * (number % 3), "node3") for number in range(5)]
SLOWER = measured(5, 20.0, "node3")


def judged(*reruns):
    """Return the cases of the night, and its changes."""
    found = nights([*STEADY, SLOWER, *reruns])
    return found[-1].cases, change_points.standing(series(found))


@pytest.mark.parametrize(
    ("reruns", "text"),
    [
        ([again(20.0, "node5", 1)], "on node3 and on node5"),
        ([again(1.0, "node5", 1), again(20.0, "node3", 2)], NODE3),
        # Without another node, as before.
        ([again(20.0, "node3", 1)], None),
    ],
)
def test_a_confirmed_change_is_an_alarm_with_its_nodes(reruns, text):
    cases, changes = judged(*reruns)
    assert [(change.series.kind, change.confirmed, change.worse) for change in changes] == [(OVERHEAD, True, True)]
    assert nightly.Result("tonight", cases, changes=changes).status == 1
    (cause,) = causes.causes(changes)
    # That the host is another one is no difference of the change's.
    assert cause.differences == (*([text] if text else []), "nothing that is recorded changed with it")
    assert (text or "") in nightly.alarm_lines(changes)[0]


def test_a_change_that_neither_node_confirms_is_none():
    assert judged(again(1.0, "node5", 1), again(1.0, "node3", 2))[1] == []


# Which cases run again


def test_what_another_node_does_not_confirm_runs_again_on_the_first_one():
    _, proposals = judged()
    assert [change.confirmed for change in proposals] == [False]

    def left(*reruns):
        cases, changes = judged(*reruns)
        return [(case.ran_on, case.rows[0].overhead) for case in nightly.not_elsewhere(cases, proposals, changes)]

    assert left(again(1.0, "node5", 1)) == [(("node3",), 20.0)]
    assert left(again(20.0, "node5", 1)) == [], "it is confirmed"
    assert left(again(1.0, "node3", 1)) == [], "the first node itself did not confirm it"
    # A case that has a confirmed change of another metric in an earlier night is no exception.
    cases, changes = judged(again(1.0, "node5", 1))
    (old,) = judged(again(20.0, "node5", 1))[1]
    earlier = [change_points.LevelChange.between(old.series, 0, 2, 5, 0.01, True)]
    assert nightly.not_elsewhere(cases, proposals, [*changes, *earlier])


def night(*cases):
    return nights([session(*cases, began=NOON)])


def tonight(*cases):
    return made.cases([raw(row(), **{"scheduler": "slurm", **case}) for case in cases])


#: Every night so far was on one node.
PASSED = [raw(row(), name=name, job_nodelist=["node3"]) for name in ("One", "Two")]
SYSTEM = {"name": "cluster", "partitions": [{"name": "one", "access": ["-p queue"]}]}


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Let Slurm list two nodes in service, one that is not, and one of another partition."""
    listed = ["queue|up|node3|idle|none", "queue|up|node5|mixed|none", "queue|up|node6|down*|none", "x|up|node7|idle|"]
    write_program(tmp_path / "sinfo", f"printf '%s\\n' {' '.join(map(repr, listed))}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.parametrize(
    ("cases", "names"),
    [
        ([{"name": "One", **on("node3", **FAILED)}, {"name": "Two", **on("node3")}], ["One"]),
        ([{"name": name, **on("node3", **FAILED)} for name in ("One", "Two")], ["One", "Two"]),
        # Failures on several nodes; of a case that never ran; without a scheduler; without other nodes in service.
        ([{"name": "One", **on("node3", **FAILED)}, {"name": "Two", **on("node4", **FAILED)}], []),
        ([{"name": "New", **on("node3", **FAILED)}], []),
        ([{"name": "One", **on("node3", scheduler="local", **FAILED)}], []),
        ([{"name": "One", **on("node3", "node5", **FAILED)}], []),
        # It did not start.
        ([{"name": "One", **on(**FAILED)}], []),
    ],
)
def test_a_failure_on_one_node_is_repeated_on_another(slurm, cases, names):
    found = nightly.failed_on_one_node(tonight(*cases), night(*PASSED), SYSTEM)
    assert [case.application for case in found] == names


def test_a_failure_that_is_known_is_not_repeated(slurm):
    cases = tonight({"name": "One", **on("node3", **FAILED)})
    before = night(*PASSED, raw(row(), name="One", job_nodelist=["node5"], **FAILED))
    assert nightly.failed_on_one_node(cases, before, SYSTEM) == []


def test_without_an_answer_of_slurm_nothing_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nightly.failed_on_one_node(tonight({"name": "One", **on("node3", **FAILED)}), night(*PASSED), SYSTEM) == []


# On which nodes


class Recorded:
    """Stands for a session: keeps the options of its runs."""

    is_stopped = False

    def __init__(self, directory):
        self.log = directory / "session.log"

    def run_within_budget(self, cases, *options):
        self.options = options
        return []


@pytest.mark.parametrize("option", [nightly.OFF, nightly.ON])
def test_each_case_has_the_nodes_of_its_own_run(tmp_path, option):
    recorded = Recorded(tmp_path)
    pinned = {"axes": " %.nid=node4", **on("node4")}
    cases = [runs(on("node3")), runs(on("here", scheduler="local"), name="Local"), runs(pinned, name="Pinned")]
    assert nightly.confirm(recorded, cases, option) == cases
    path = recorded.options[-1].partition("rerun_nodes=")[2]
    assert {place: {*cases} for place, cases in json.loads((tmp_path / "rerun-nodes.json").read_text()).items()} == {
        "cluster:compute": {"Code %variant=generic %num_nodes=1"}
    }
    found = earlier_sessions.rerun_nodes(path, "Code %variant=generic %num_nodes=1", "cluster:compute")
    assert found == (option, ["node3"])
    assert earlier_sessions.rerun_nodes(path, "Other", "cluster:compute") == ("", ())
    assert earlier_sessions.rerun_nodes("", "Other", "cluster:compute") == ("", ())
    with pytest.raises(ReframeError, match="cannot read .*none.json"):
        earlier_sessions.rerun_nodes(str(tmp_path / "none.json"), "Other", "cluster:compute")


NODES = REPOSITORY / "ci/tests/saved_schedulers/made-scontrol-nodes.txt"


@pytest.mark.parametrize(
    ("options", "avoided", "needed", "option"),
    [
        ([], ["node1"], 1, ["--exclude=node1"]),
        ([], ["node1"], 2, ["--exclude=node1"]),
        # Two remain in service, and a job waits for a third one for ever.
        ([], ["node1"], 3, []),
        ([], ["node1", "node2"], 2, []),
        (["-C fat"], ["node3"], 1, []),
        (["--constraint=thin"], ["node1"], 1, ["--exclude=node1"]),
        (["--nodelist=node3"], ["node3"], 1, []),
        # What the site or a person (-J) excludes stays so.
        (["--exclude=node2"], ["node1"], 1, ["--exclude=node2,node1"]),
        (["-x node2"], ["node1"], 2, []),
    ],
)
def test_nodes_are_excluded_only_if_others_can_run_the_job(tmp_path, monkeypatch, options, avoided, needed, option):
    # The last word is the name of a node, or none.
    write_program(tmp_path / "scontrol", f'grep "NodeName=$5" {NODES}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for place in ("sched_access", "sched_options"):
        facts = {"sched_access": ["--partition=compute"]}
        facts[place] = [*facts.get(place, []), *options]
        job = Job.create(getscheduler("slurm")(), getlauncher("local")(), name="rerun", **facts)
        assert jobs.on_nodes(job, needed, "exclude", avoided) == option
        assert jobs.on_nodes(job, needed, "nodelist", avoided) == [f"--nodelist={','.join(avoided)}"]


def test_a_slurm_that_does_not_answer_and_another_scheduler_exclude_nothing(tmp_path, monkeypatch):
    write_program(tmp_path / "scontrol", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("slurm", "local"):
        job = Job.create(getscheduler(name)(), getlauncher("local")(), name="rerun")
        assert jobs.on_nodes(job, 1, "exclude", ["node1"]) == []
