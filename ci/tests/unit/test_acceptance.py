"""Acceptance of a container runtime: what is compared with what, and what is said of it."""

from __future__ import annotations

import doctest
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, facts_of, write_program
from containercheck import Metric
from containercheck.application import references
from containercheck.command import acceptance
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from containercheck.job.explaining import Endings, Explaining
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts, JobSide
from containercheck.job.verdict import findings
from containercheck.job.verdict.findings import Findings
from containercheck.report import versions
from containercheck.results import formatting
from containercheck.results.cases import Case
from containercheck.results.row import Row
from containercheck.sides.sides import Container, Program, Side

START = Metric("start", "(x)", "s", better="lower", compare="difference", tolerance=0.5)
RATE = Metric("rate", "(x)", "x/s")
SEEN = """A=1
TEXT=one

two
_=/usr/bin/env

512 300 0:50 / / ro - fuse.squashfuse_ll squashfuse_ll ro
513 512 0:51 / /proc rw,nosuid - proc proc rw

core file size              (blocks, -c) 0
open files                          (-n) 1024
CapEff:\t0000000000000000
"""


def test_a_successor_has_margins_of_its_own():
    assert references.margins([START, RATE], usual=5.0) == {"start": (-math.inf, 0.1), "rate": (-math.inf, 5.0)}


def test_what_passes_against_bare_fails_against_the_one_before():
    """A start that goes from 0.19 to 0.5 s."""
    sides = [
        {"name": "baseline", "label": "bare", "compared_with": None},
        {"name": "old", "label": "old", "compared_with": None},
        {"name": "new", "label": "new", "compared_with": "old", "accepted": references.margins([START], 5.0)},
    ]
    seconds = {"baseline": 0.003, "old": 0.19, "new": 0.49}
    rounds = [{side: {"start": value + 0.001 * number} for side, value in seconds.items()} for number in range(12)]
    judged = Evaluation(Facts(facts_of([START], sides=sides, earlier=rounds)), Path())
    assert {key: pairs.verdict for key, pairs in judged.pairs.items()} == {("new", "start"): "fail"}
    sides[2].update(compared_with="baseline", accepted={})
    judged = Evaluation(Facts(facts_of([START], sides=sides, earlier=rounds)), Path())
    assert judged.pairs["new", "start"].verdict == "pass"


def test_what_a_container_sees_is_read():
    assert findings.read_surroundings(SEEN) == {
        "variable": {"A": "1", "TEXT": "one"},
        "mount": {"/": "fuse.squashfuse_ll", "/proc": "proc"},
        "limit": {"core file size (blocks, -c)": "0", "open files (-n)": "1024", "CapEff": "0000000000000000"},
    }


def test_what_differs_is_a_line_each():
    old, new = {"A": "1", "B": "2", "C": "3"}, {"A": "1", "B": "4", "D": "5"}
    assert findings._differences("variable", old, new) == [
        "variable B was 2, and is 4",
        "variable C is gone: it was 3",
        "variable D is new: 5",
    ]
    assert findings._differences("variable", old, old) == []


@pytest.mark.parametrize("stage", ["/stage/new/Code", "/stage.old/x"])
def test_what_we_name_by_side_is_no_difference_and_all_else_is(tmp_path, stage):
    """LD_LIBRARY_PATH of the host's MPI begins with a directory of each side: the same runtime was rejected for it."""
    sides = [Side(name, name, Program("program"), container=Container(by_name("Apptainer"), "i")) for name in "ab"]
    sides = [replace(sides[0], name="old"), replace(sides[1], name="new", compared_with="old", replaces=True)]
    seen = (
        "LD_LIBRARY_PATH=/rfm_workdir/{0}.host-mpi:/opt/lib\nOURS={stage}/{0}.variables\nIMAGE=/rfm_workdir/image.{0}\n"
    )
    differs = "THEIRS=/opt/{0}.host-mpi\nWORD={0}.host-mpi\n"
    mount = "\n1 2 0:5{number} / /rfm_workdir/{0}.host-mpi/lib ro - ext4 x x\n\nopen files (-n) 1024\n"
    stagedir = tmp_path / stage[1:]
    stagedir.mkdir(parents=True)
    for number, side in enumerate(("old", "new")):
        text = (seen + differs + mount).format(side, stage=stagedir, number=number)
        (stagedir / contract.surroundings_file(side)).write_text(text)
        (stagedir / contract.runtime_file(side)).write_text('{"configuration": {}}')
    facts = [JobSide(**side.facts({})) for side in sides]
    assert Findings({"runs": []}, facts, stagedir).changes() == (
        [
            "new: variable THEIRS was /opt/old.host-mpi, and is /opt/new.host-mpi",
            "new: variable WORD was old.host-mpi, and is new.host-mpi",
        ],
        [],
    )


def case(*verdicts, result="pass", reason="", **facts):
    rows = tuple(Row(f"metric{number}", verdict=word) for number, word in enumerate(verdicts))
    place = (("code", "", "", ""), "Code", {}, "Code", "only", "generic", 1)
    return Case(*place, result, reason=reason, rows=rows, **facts)


#: Rounds of a check that has answers, and no metrics.
ANSWERED = ({"old": {}, "new": {}},)


@pytest.mark.parametrize(
    ("cases", "problems", "status", "said"),
    [
        ([case("pass", "pass")], [], 0, "acceptance: accepted: 1 accepted, 0 rejected, 0 undecided"),
        ([case("pass"), case("pass", "inconclusive")], [], 2, "open: metric1"),
        ([case("inconclusive"), case(result="fail", reason="start is 0.3 s worse")], [], 1, "start is 0.3 s worse"),
        ([case("emulated")], [], 2, "emulated: overheads are reported, not judged"),
        # Nothing that was not looked at is accepted.
        ([case()], [], 2, "nothing was compared"),
        # A check without metrics counts by its answers.
        ([case(measured=ANSWERED), case("pass")], [], 0, "acceptance: accepted: 2 accepted, 0 rejected, 0 undecided"),
        ([case(measured=ANSWERED, result="fail", reason="wrong answer")], [], 1, "wrong answer"),
        (
            [case("pass")],
            ["stopped by SIGTERM"],
            2,
            "acceptance: undecided: 1 accepted, 0 rejected, 0 undecided: not",
        ),
        ([case(result="skip", reason="no image")], [], 2, "acceptance: error: no check was run"),
        ([], [], 2, "acceptance: error: no check was run"),
    ],
)
def test_the_whole_is_what_its_worst_case_is(cases, problems, status, said, capsys, monkeypatch):
    monkeypatch.setattr(acceptance.table, "lines", lambda cases: [])
    monkeypatch.setattr(formatting, "_speaker", "acceptance")
    assert acceptance.conclude({}, cases, problems) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["apptainer"], "it takes two: OLD and NEW"),
        (
            ["sh", "no-such-runtime"],
            "no container runtime no-such-runtime: neither a command, nor a path",
        ),
        (["sh", "a b; rm -rf"], "no container runtime a b; rm -rf"),
        (
            ["apptainer", "apptainer+flat"],
            "apptainer has no way flat to run images: after the +, write one of unpacked",
        ),
        (["one=sh", "one=sh"], "each candidate needs a name of its own: one, one"),
        (["sh", "sh", "--minutes=x"], "acceptance: error: argument --minutes: 'x' is not a number above 0"),
    ],
)
def test_a_wrong_command_line_is_one_line(words, said):
    command = [sys.executable, "-m", "containercheck", "acceptance", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 64
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_messages_begin_with_the_command_that_was_typed():
    words = ["sh", "sh", "--here", "--no-such-option"]
    command = [sys.executable, "-m", "containercheck", "acceptance", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 64
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == ["acceptance"] * 3
    assert "unrecognized arguments: --no-such-option" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["apptainer", "IMAGE"], "a runtime and an image cannot be compared"),
        (["IMAGE", "docker://x@sha256:0"], "say which check (-n)"),
        (["IMAGE", "IMAGE", "-n", "HPCC", "--built-by-each"], "say which check (-n), and not who builds them"),
    ],
)
def test_images_are_compared_with_images_of_one_application(words, said, tmp_path):
    image = tmp_path / "some.sif"
    image.write_bytes(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0")
    words = [image if word == "IMAGE" else word for word in words]
    command = [sys.executable, "-m", "containercheck", "acceptance", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 64
    assert said in done.stderr.splitlines()[-1]
    assert acceptance.candidates([str(image), "docker://x@sha256:0"])[0] == "compared_images"
    assert not acceptance.is_image(shutil.which("sh"))


def test_the_table_has_what_each_version_adds_to_bare():
    rows = (
        Row("start", "s", overhead_unit="s"),
        Row("rate", "x/s", overhead_unit="%"),
    )
    measured = [
        {
            "baseline": {"start": 0.01, "rate": 100.0 + 2 * number},
            "old": {"start": 0.19 + 0.02 * number, "rate": 99.0 + 4 * number},
            "new1": {"start": 0.2 + 0.1 * number, "rate": 90.0 + 1.8 * number},
        }
        for number in range(2)
    ]
    compared = replace(case(), rows=rows, measured=tuple(measured))
    heading, start, rate, *legend = versions.lines([compared], {"old": "apptainer 1.3.6", "new1": "apptainer 1.4.5"})
    assert heading.split() == ["application", "variant", "nodes", "metric", "bare", "old", "new1"]
    assert re.split("  +", start)[4:] == ["start", "0.01 s", "0.2 (+0.19)", "0.25 (+0.24)"]
    assert re.split("  +", rate)[4:] == ["rate", "101 x/s", "101 (+0 %)", "90.9 (-10 %)"]
    assert legend == ["old: apptainer 1.3.6", "new1: apptainer 1.4.5"]
    assert versions.lines([case("pass")], {"old": "one"}) == []


def test_the_table_over_runtimes_has_the_metrics_of_a_part_together():
    """Start-up, memory, size, messages, files, applications; whatever order the cases of the report have."""
    assert doctest.testmod(versions).failed == 0
    metrics = {
        "GROMACS": [Row("rate", "ns/day")],
        "IOzone": [Row("read", "kB/s", measures=("files",))],
        "PingPong": [
            Row("latency", "us", overhead_unit="%", measures=("messages",)),
            Row("bandwidth", "MB/s", measures=("network",)),
        ],
        "StartUp": [
            Row("memory", "MB", overhead_unit="MB", measures=("start",)),
            Row("start", "s", overhead_unit="s", measures=("start",)),
        ],
        # What depends on the machine's processors too is an application's.
        "HPL": [Row("HPL", "GFLOPS", measures=("computing", "messages", "network"))],
    }
    images = {name: {"image_bytes": size << 20} for name, size in (("apptainer", 97), ("podman", 76))}
    cases = []
    for application, rows in metrics.items():
        # As they are stored.
        stored = tuple(Row.from_json(row.to_json()) for row in rows)
        measured = ({name: {row.metric: 2.0 for row in rows} for name in ("baseline", "apptainer", "podman")},)
        facts = {"provenance": {"images": images}} if application == "StartUp" else {}
        cases.append(replace(case(), label=application, rows=stored, measured=measured, **facts))
    heading, *lines = versions.lines(cases, {"apptainer": "1.4", "podman": "4.3"})
    assert heading.split() == ["application", "variant", "nodes", "metric", "bare", "apptainer", "podman"]
    cells = [re.split("  +", line) for line in lines[:-2]]
    assert [(part, application, metric) for part, application, _, _, metric, *_ in cells] == [
        ("start-up", "StartUp", "start"),
        ("memory", "StartUp", "memory"),
        ("size", "StartUp", "image"),
        ("messages", "PingPong", "latency"),
        ("", "PingPong", "bandwidth"),
        ("files", "IOzone", "read"),
        ("applications", "GROMACS", "rate"),
        ("", "HPL", "HPL"),
    ]
    assert lines[-2:] == ["apptainer: 1.4", "podman: 4.3"]


def test_what_is_open_is_named_with_its_runtime_where_there_are_several():
    rows = tuple(Row("rate", "x/s", subject_label=name, verdict="open") for name in ("podman", "charliecloud"))
    assert acceptance.reason(replace(case(), rows=rows), "undecided") == "open: rate of podman, rate of charliecloud"
    assert acceptance.reason(replace(case(), rows=rows[:1]), "undecided") == "open: rate"


def test_each_runtime_has_a_verdict_of_its_own_where_each_is_compared_with_bare():
    def row(name, verdict):
        return Row("rate", "x/s", subject_label=name, verdict=verdict)

    def of(application, *rows, **facts):
        return replace(case(), application=application, rows=rows, label=application, variant="generic", **facts)

    titles = dict.fromkeys(("apptainer", "podman", "charliecloud"), "")
    cases = [
        of("HPL", row("apptainer", "pass"), row("podman", "fail"), row("charliecloud", "open")),
        # Its runs failed: there is nothing of it.
        of(
            "HPCG", row("apptainer", "pass"), row("podman", "pass"), result="fail", reason="charliecloud: exit status 3"
        ),
        # It has no metrics.
        of("Isolation", measured=ANSWERED),
        # Nobody's fault.
        of("WRF", result="fail", reason="no rounds were run"),
    ]
    blank, heading, *rows = acceptance.by_candidate(titles, cases)
    assert (blank, heading.split()) == ("", ["accepted", "rejected", "undecided", "not", "in"])
    assert [re.split("  +", line.strip()) for line in rows] == [
        ["apptainer", "3", "0", "0"],
        ["podman", "2", "1", "0", "HPL generic, 1 node(s)"],
        ["charliecloud", "1", "1", "1", "HPCG generic, 1 node(s)"],
    ]
    # Of versions, the first is what the others are judged by.
    assert acceptance.by_candidate({"old": "", "new": ""}, [of("HPL", row("new", "fail"))]) == []
    measured = ({"baseline": {"rate": 100.0}, "podman": {"rate": 98.0}},)
    compared = replace(case(), rows=(Row("rate", "x/s", overhead_unit="%"),), measured=measured)
    _, rate, *_ = versions.lines([compared], {"charliecloud": "", "podman": ""})
    assert re.split("  +", rate)[4:] == ["rate", "100 x/s", "-", "98 (-2 %)"]


def test_runtimes_of_several_kinds_are_no_versions_of_each_other(tmp_path, monkeypatch):
    """The images that each needs are of different sizes, as in D12.6 section 6.5."""
    for command in ("apptainer", "podman", "ch-run"):
        write_program(tmp_path / command, "")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kind, paths = acceptance.candidates(["apptainer", "podman", "charliecloud"])
    commands = {"apptainer": "apptainer", "podman": "podman", "charliecloud": "ch-run"}
    assert (kind, paths) == ("runtimes", {name: str(tmp_path / command) for name, command in commands.items()})
    # Two of a kind are versions.
    assert [*acceptance.candidates(["apptainer", "apptainer"])[1]] == ["old", "new"]
    assert [*acceptance.candidates(["apptainer", "apptainer", "podman"])[1]] == ["apptainer1", "apptainer2", "podman"]
    # The ways of one runtime are several kinds; and a person may say what they are called.
    assert acceptance.candidates(["apptainer", "apptainer+unpacked", "mine=podman"])[1] == {
        "apptainer": str(tmp_path / "apptainer"),
        "apptainer-unpacked": f"{tmp_path}/apptainer+unpacked",
        "mine": str(tmp_path / "podman"),
    }
    assert [*acceptance.candidates(["apptainer+kernel", "apptainer+kernel"])[1]] == ["old", "new"]
    images = {"apptainer": {"image_bytes": 142 << 20}, "podman": {"image_bytes": 109 << 20}}
    # One was made before the bytes of its files were counted.
    images["podman"]["image_content_bytes"] = 278 << 20
    measured = ({"baseline": {"rate": 100.0}, "apptainer": {"rate": 99.0}, "podman": {"rate": 98.0}},)
    compared = replace(
        case(), rows=(Row("rate", "x/s", overhead_unit="%"),), measured=measured, provenance={"images": images}
    )
    lines = versions.lines([compared], {"apptainer": "1.4", "podman": "4.3"})
    assert re.split("  +", lines[1])[4:] == ["image", "142 MiB", "109 MiB (278 of files)"]


@pytest.mark.parametrize(
    ("elsewhere", "on_path", "added"),
    [
        (["apptainer", "singularity"], [], "apptainer"),
        # It runs images, and builds none.
        (["ch-run", "singularity"], [], "singularity"),
        (["ch-run"], [], ""),
        (["apptainer", "singularity"], ["podman"], ""),
    ],
)
def test_where_no_runtime_is_on_the_path_the_first_that_builds_is_put_there(
    tmp_path, monkeypatch, capsys, elsewhere, on_path, added
):
    own = tmp_path / "bin"
    for place, command in [*((tmp_path / command, command) for command in elsewhere), *((own, c) for c in on_path)]:
        place.mkdir(exist_ok=True)
        write_program(place / command, "")
    monkeypatch.setenv("PATH", str(own))
    acceptance.put_on_path({command: str(tmp_path / command / command) for command in elsewhere})
    assert os.environ["PATH"] == ":".join([str(own), *([str(tmp_path / added)] if added else [])])
    assert (f"no container runtime is on the PATH: {added} builds" in capsys.readouterr().out) == bool(added)


def test_a_rejection_names_what_differs_from_what_it_is_compared_with():
    """In the table of the cases as part of the reason, and below that of the candidates for each."""
    cause = {
        "rule": "variable",
        "about": "X",
        "sentence": "X=1 is set in podman, and not on the host",
        "side": "podman",
    }
    rows = (Row("rate", verdict="pass", subject_label="apptainer"), Row("rate", verdict="fail", subject_label="podman"))
    rejected = replace(case(result="fail", reason="rate of podman is 9 % worse"), rows=rows)
    rejected = replace(rejected, causes=({**cause, "side": "podman"},))
    lines = acceptance.by_candidate({"apptainer": "1.4", "podman": "4.3"}, [rejected, replace(rejected, causes=())])
    assert lines[-1] == (
        "Code generic, 1 node(s), podman: what differs, and may be the cause: X=1 is set in podman, and not on the host"
    )
    assert len(lines) == 5


@pytest.mark.parametrize(("replaces", "where"), [(True, "new, 4 GiB in old"), (False, "new, 8 GiB on the host")])
def test_the_candidate_that_is_too_slow_or_ends_is_explained_by_what_it_is_compared_with(
    tmp_path, monkeypatch, replaces, where
):
    monkeypatch.chdir(tmp_path)
    measure = "old" if replaces else "baseline"
    sides = [
        BARE,
        {
            **GENERIC,
            "name": "old",
            "label": "old",
            "contained": True,
            "compared_with": None if replaces else "baseline",
        },
        {**GENERIC, "name": "new", "label": "new", "contained": True, "compared_with": measure},
    ]
    for name, size in (("baseline", 8 << 30), ("old", 4 << 30), ("new", 8 << 20)):
        seen = {"host": "n1", "space": {"/dev/shm": [size, size]}}
        (tmp_path / contract.observed_file(name)).write_text(json.dumps(seen))
    rounds = [{"baseline": {"rate": 100.0}, "old": {"rate": 100.0}, "new": {"rate": 80.0}}] * 3
    facts = Facts(facts_of([RATE], sides=sides, earlier=rounds, ranks=2))
    explaining = Explaining(facts, [])
    for causes in (
        explaining.explain_slowness(Evaluation(facts, tmp_path), {("new", "rate")}, [], [])[0],
        explaining.explain_end({"new": Endings(1, 1)}, [], []),
    ):
        assert [(cause["side"], cause["sentence"]) for cause in causes] == [("new", f"/dev/shm holds 8 MiB in {where}")]
    # Where what it is compared with ended too, the container is not to blame.
    assert explaining.explain_end({"new": Endings(1, 1), measure: Endings(1, 1)}, [], []) == []
