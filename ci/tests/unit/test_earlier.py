"""Rounds of an earlier session, from ReFrame's report of it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import BARE as BARE_FACTS
from conftest import GENERIC as GENERIC_FACTS
from conftest import facts_of, record_of, run_of
from containercheck import Metric
from containercheck.job.container_runtimes import by_name
from containercheck.job.outputs.facts import Facts
from containercheck.job.rounds import Rounds
from containercheck.results import earlier_sessions
from containercheck.sides.sides import Container, Program, Side
from containercheck.site.layout import Layout
from reframe.core.exceptions import ReframeError

ROUND = {"baseline": {"time": 1.0}, "subject": {"time": 1.01}}
PROGRAM = Program("hpl")
BARE = Side("baseline", "bare", PROGRAM)
GENERIC = Side(
    "subject", "generic", PROGRAM, container=Container(by_name("Apptainer"), "image.sif"), compared_with="baseline"
)
LAYOUT = Layout(1, 2, 1)
WORK = {"amount": 2.0, "unit": "boxes", "input": "", "making of the input": ""}


def compared(sides=(BARE, GENERIC), layout=LAYOUT, work=WORK, stagedir="/stage/one", **scripts):
    texts = {side.name: f"mpirun -B{stagedir}:/rfm_workdir {side.label}" for side in sides}
    return json.loads(json.dumps(earlier_sessions.compared_in(sides, {**texts, **scripts}, layout, work, stagedir)))


SAME = compared()


def rounds_of(report, name, partition):
    return list(earlier_sessions.rounds_of(report, name, partition, SAME).rounds)


@pytest.fixture
def report(tmp_path):
    """Write a report of runs, each of some cases, and return its path."""

    def write(*runs, name="report.json"):
        (tmp_path / name).write_text(json.dumps({"runs": [{"testcases": cases} for cases in runs]}))
        return str(tmp_path / name)

    return write


def case(name="HPL_1", partition="compute", **facts):
    return {"unique_name": name, "system": "cluster", "partition": partition, "compared": SAME, **facts}


def test_the_rounds_are_those_of_the_last_run_of_the_same_case_on_the_same_partition(report):
    first = [case(measured=[ROUND] * 3), case("HPL_2", measured=[ROUND]), case(partition="login", measured=[ROUND] * 2)]
    path = report(first, [case(measured=[ROUND] * 4), case("HPL_2")])
    found = {
        (name, partition): len(rounds_of(path, name, partition))
        for name in ("HPL_1", "HPL_2")
        for partition in ("cluster:compute", "cluster:login")
    }
    assert [*found.values()] == [4, 2, 1, 0]
    assert rounds_of(path, "HPL_2", "cluster:compute") == [ROUND]
    assert rounds_of("", "HPL_1", "cluster:compute") == []


def test_a_report_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "report.json"
    path.write_text('{"runs": [{}]}')
    for name in (path, tmp_path / "none.json"):
        with pytest.raises(ReframeError, match=f"cannot read the earlier session's report {name}: "):
            rounds_of(str(name), "HPL_1", "cluster:compute")


def with_container(side, **facts):
    return replace(side, container=replace(side.container, **facts))


OF_GENERIC = "side subject: generic (judged against it: baseline)"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        # ci/acceptance OLD NEW1, then OLD NEW2 --resume.
        ({"sides": (BARE, with_container(GENERIC, command="/opt/2"))}, "the runtime of subject: apptainer -> /opt/2"),
        # A plain session, then ci/acceptance --resume: there are no such sides in its rounds.
        ({"sides": (BARE, replace(GENERIC, name="old", label="old", compared_with=None))}, f"{OF_GENERIC} -> none"),
        ({"sides": (BARE, replace(GENERIC, replaces=True))}, f"{OF_GENERIC} -> generic (judged as its successor: base"),
        ({"sides": (BARE, with_container(GENERIC, image="other.sif"))}, "the image of subject: image.sif -> "),
        ({"layout": Layout(1, 4, 1)}, "ranks on a node: 2 -> 4"),
        ({"work": {**WORK, "amount": 4.0}}, "amount: 2.0 -> 4.0"),
        ({"subject": "mpirun other"}, "the command of subject is another one"),
        # A stage directory of its own is what a later pass has.
        ({"stagedir": "/stage/repeat/one"}, ""),
    ],
)
def test_rounds_count_where_the_same_was_compared(report, other, said):
    path = report([case(measured=[ROUND] * 3)])
    found = earlier_sessions.rounds_of(path, "HPL_1", "cluster:compute", compared(**other))
    assert found.refused.startswith(said)
    assert (bool(found.refused), len(found.rounds)) == (bool(said), 0 if said else 3)


def test_rounds_that_do_not_say_what_they_compared_do_not_count(report):
    path = report([case(measured=[ROUND], compared={})])
    found = earlier_sessions.rounds_of(path, "HPL_1", "cluster:compute", SAME)
    assert (found.rounds, found.refused) == ((), "their report does not name the compared things")


def test_an_image_is_known_by_its_digest_wherever_it_lies(tmp_path):
    texts = []
    for number, digest in enumerate(("aa", "aa", "bb")):
        stage = tmp_path / str(number)
        stage.mkdir()
        (stage / "image.json").write_text(json.dumps({"path": f"/images/{number}.sif", "sha256": digest}))
        texts.append(compared(stagedir=str(stage)))
    assert texts[0] == texts[1]
    assert [text["the image of subject"] for text in texts] == ["aa", "aa", "bb"]


@pytest.mark.parametrize(
    ("version", "lock", "runtime", "said"),
    [
        ("2.3", "aa", "1.4.5", ""),
        # It printed nothing: none of its runs ended well.
        ("", "aa", "1.4.5", ""),
        ("2.4", "aa", "1.4.5", "baseline was 2.3, and is 2.4"),
        ("", "bb", "1.4.5", "spack was aa, and is bb"),
        ("", "aa", "1.5.0", "the runtime of subject was apptainer, 1.4.5, and is apptainer, 1.5.0"),
    ],
)
def test_rounds_of_what_was_upgraded_since_begin_anew(report, tmp_path, monkeypatch, version, lock, runtime, said):
    """What the program is stands in its output: it is known after the first round."""
    provenance = {"builds": {"baseline": {"version": "2.3"}}, "spack": {"lock": "aa"}}
    provenance["runtimes"] = {"subject": {"command": "apptainer", "version": "1.4.5"}}
    path = report([case(measured=[ROUND] * 3, provenance=provenance)])
    facts = facts_of([Metric("time", r"^time (\S+)", "s")], sides=[BARE_FACTS, GENERIC_FACTS])
    facts.update(earlier_sessions.rounds_of(path, "HPL_1", "cluster:compute", SAME).facts)
    facts["identity"] = [{"name": "version", "pattern": r"^version (\S+)$", "file": "out"}]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spack.json").write_text(json.dumps({"lock": lock}))
    started = {"command": "apptainer", "version": runtime, "configuration": {}}
    (tmp_path / "subject.runtime.json").write_text(json.dumps(started))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out").write_text("time 1\n" + f"version {version}\n" * bool(version))
    (tmp_path / "run" / "err").touch()
    runs = [run_of(side, "run") for side in ("baseline", "subject")]
    runner = SimpleNamespace(record=record_of(*runs), halves=(), took={})
    rounds = Rounds(SimpleNamespace(rounds=1, seconds=60), Facts(facts), runner)
    rounds.refuse_other_builds()
    assert len(rounds.evaluation.rounds) == (1 if said else 3)
    line = f"earlier rounds do not count, and all begin anew: {said}"
    assert rounds.evaluation.left_out == ([line] if said else [])


def test_the_making_of_the_input_may_name_other_directories_of_the_jobs():
    """IOzone makes a directory whose name nobody can foresee, in the stage directory or on another file system."""
    made = [
        compared(work={"making of the input": f"place {place}/containercheck-0-{digit * 16}"}, stagedir=stage)
        for digit, place, stage in (("0", "/scratch", "/stage/one"), ("f", "/scratch", "/stage/two"))
    ]
    assert made[0] == made[1]
    other = compared(work={"making of the input": f"place /tmp/containercheck-0-{'0' * 16}"})
    assert other != made[0]
