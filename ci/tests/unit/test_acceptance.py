"""Acceptance of a container runtime: what is compared with what, and what is said of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace

import pytest
from conftest import BARE, GENERIC, facts_of, write_program
from containercheck import Metric
from containercheck.command import acceptance
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from containercheck.job.explain.explanation import Endings, Explaining
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts, JobSide
from containercheck.job.verdict.findings import Findings
from containercheck.results import formatting
from containercheck.results.cases import Case
from containercheck.results.row import Row
from containercheck.sides.sides import Container, Program, Side

RATE = Metric("rate", "(x)", "x/s")


@pytest.mark.parametrize("stage", ["/stage/new/Code", "/stage.old/x"])
def test_what_we_name_by_side_is_no_difference_and_all_else_is(tmp_path, stage):
    """LD_LIBRARY_PATH of the host's MPI begins with a directory of each side: the same runtime was rejected for it."""
    sides = [Side(name, name, Program("program"), container=Container(by_name("Apptainer"), "i")) for name in "ab"]
    sides = [replace(sides[0], name="old"), replace(sides[1], name="new", compared_with="old", replaces=True)]
    same = {"LD_LIBRARY_PATH": "/rfm_workdir/{0}.host-mpi:/opt/lib", "OURS": "{1}/{0}.variables", "_": "{0}"}
    same["IMAGE"] = "/rfm_workdir/image.{0}"
    differs = {"THEIRS": "/opt/{0}.host-mpi", "WORD": "{0}.host-mpi"}
    stagedir = tmp_path / stage[1:]
    stagedir.mkdir(parents=True)
    for side in ("old", "new"):
        seen = {
            "environment": {name: text.format(side, stagedir) for name, text in {**same, **differs}.items()},
            "mounts": {f"/rfm_workdir/{side}.host-mpi/lib": ["ext4", "x", "ro", "x"]},
            "limits": {"Max open files": "1024" if side == "old" else "64"},
            "status": {"CapEff": "0000000000000000"},
        }
        (stagedir / contract.surroundings_file(side)).write_text(json.dumps(seen))
        (stagedir / contract.runtime_file(side)).write_text('{"configuration": {}}')
    facts = [JobSide(**side.facts({})) for side in sides]
    assert Findings({"runs": []}, facts, stagedir).changes() == (
        [
            "new: variable THEIRS was /opt/old.host-mpi, and is /opt/new.host-mpi",
            "new: variable WORD was old.host-mpi, and is new.host-mpi",
        ],
        ["new: limit Max open files was 1024, and is 64"],
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
        ([case("pass"), case("pass", "inconclusive")], [], 2, "acceptance: undecided: Code generic, 1 node(s)"),
        ([case("inconclusive"), case(result="fail", reason="worse")], [], 1, "acceptance: rejected: Code generic, 1 n"),
        ([case("emulated")], [], 2, "undecided: 0 accepted, 0 rejected, 1 undecided: not accepted"),
        # Nothing that was not looked at is accepted.
        ([case()], [], 2, "undecided: 0 accepted, 0 rejected, 1 undecided: not accepted"),
        # A check without metrics counts by its answers.
        ([case(measured=ANSWERED), case("pass")], [], 0, "acceptance: accepted: 2 accepted, 0 rejected, 0 undecided"),
        ([case(measured=ANSWERED, result="fail", reason="wrong")], [], 1, "rejected: 0 accepted, 1 rejected, 0 und"),
        ([case("pass")], ["stopped by SIGTERM"], 2, "acceptance: undecided: 1 accepted, 0 rejected, 0 undecided: not"),
        ([case(result="skip", reason="no image")], [], 2, "acceptance: error: no check was run"),
        ([], [], 2, "acceptance: error: no check was run"),
    ],
)
def test_the_whole_is_what_its_worst_case_is(cases, problems, status, said, capsys, monkeypatch):
    monkeypatch.setattr(acceptance.view, "lines", lambda cases: [])
    monkeypatch.setattr(formatting, "_speaker", "acceptance")
    assert acceptance.conclude({}, cases, problems) == status
    assert said in capsys.readouterr().out


@pytest.fixture
def sif(tmp_path):
    """Write a file that begins like an image."""
    path = tmp_path / "some.sif"
    path.write_bytes(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0")
    return str(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["apptainer"], "it takes two: OLD and NEW"),
        (["sh", "no-such-runtime"], "no container runtime no-such-runtime: neither a command, nor a path"),
        (["sh", "a b; rm -rf"], "no container runtime a b; rm -rf"),
        (["sh", "apptainer+flat"], "apptainer has no way flat to run images: after the +, write one of unpacked"),
        (["sh", "sh", "--minutes=x"], "error: argument --minutes: 'x' is not a number above 0"),
        # Images are compared with images of one application.
        (["apptainer", "SIF"], "a runtime and an image cannot be compared"),
        (["SIF", "docker://x@sha256:0"], "name the check (-n)"),
    ],
)
def test_a_wrong_command_line_is_one_line(words, message, sif, capsys):
    with pytest.raises(SystemExit) as ended:
        acceptance.main([sif if word == "SIF" else word for word in words], None)
    assert ended.value.code == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_file_is_an_image_by_its_content(sif):
    assert acceptance.candidates([sif, "docker://x@sha256:0"])[0] == "compared_images"
    assert not acceptance.is_image(shutil.which("sh"))


def test_the_table_over_runtimes_has_differences_from_bare():
    rows = {"GROMACS": Row("rate", "ns/day"), "IOzone": Row("read", "kB/s"), "StartUp": Row("start", "s")}
    cases = []
    for application, row in rows.items():
        row = replace(row, overhead_unit="s" if application == "StartUp" else "%")
        sides = {"baseline": 2.0, "apptainer": 2.5, **({"podman": 3.0} if application != "IOzone" else {})}
        measured = tuple({name: {row.metric: value + more} for name, value in sides.items()} for more in (-1, 1))
        cases.append(replace(case(), label=application, rows=(row,), measured=measured))
    heading, *lines = acceptance.versions_table(cases, {"apptainer": "1.4", "podman": "4.3"})
    assert heading.split() == ["application", "variant", "nodes", "metric", "bare", "apptainer", "podman"]
    assert [re.split("  +", line)[::3] for line in lines[:3]] == [
        ["GROMACS", "rate", "3 (+50 %)"],
        # Podman's runs failed.
        ["IOzone", "read", "-"],
        ["StartUp", "start", "3 (+1)"],
    ]
    assert lines[3:] == ["apptainer: 1.4", "podman: 4.3"]


def test_runtimes_of_several_kinds_are_no_versions_of_each_other(tmp_path, monkeypatch):
    for command in ("apptainer", "podman", "ch-run"):
        write_program(tmp_path / command, "")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kind, paths = acceptance.candidates(["apptainer", "podman", "charliecloud"])
    commands = {"apptainer": "apptainer", "podman": "podman", "charliecloud": "ch-run"}
    assert (kind, paths) == ("runtimes", {name: str(tmp_path / command) for name, command in commands.items()})
    # Two of a kind are versions.
    assert [*acceptance.candidates(["apptainer", "apptainer"])[1]] == ["old", "new"]
    assert [*acceptance.candidates(["apptainer", "apptainer", "podman"])[1]] == ["apptainer1", "apptainer2", "podman"]
    # The ways of one runtime are several kinds.
    assert acceptance.candidates(["apptainer", "apptainer+unpacked", "podman"])[1] == {
        "apptainer": str(tmp_path / "apptainer"),
        "apptainer-unpacked": f"{tmp_path}/apptainer+unpacked",
        "podman": str(tmp_path / "podman"),
    }
    assert [*acceptance.candidates(["apptainer+unpacked", "apptainer+unpacked"])[1]] == ["old", "new"]


@pytest.mark.parametrize(
    ("elsewhere", "on_path", "added"),
    [
        (["apptainer", "singularity"], [], "apptainer"),
        # It runs images, and builds none.
        (["ch-run", "singularity"], [], "singularity"),
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


@pytest.mark.parametrize(("replaces", "where"), [(True, "new, 4 GiB in old"), (False, "new, 8 GiB on the host")])
def test_the_candidate_that_is_too_slow_or_ends_is_explained_by_what_it_is_compared_with(
    tmp_path, monkeypatch, replaces, where
):
    monkeypatch.chdir(tmp_path)
    measure = "old" if replaces else "baseline"
    container = {**GENERIC, "contained": True}
    old = {**container, "name": "old", "label": "old", "compared_with": None if replaces else "baseline"}
    sides = [BARE, old, {**container, "name": "new", "label": "new", "compared_with": measure}]
    for name, size in (("baseline", 8 << 30), ("old", 4 << 30), ("new", 8 << 20)):
        seen = {"host": "n1", "space": {"/dev/shm": [size, size]}}
        (tmp_path / contract.observed_file(name)).write_text(json.dumps(seen))
    rounds = [{"baseline": {"rate": 100.0}, "old": {"rate": 100.0}, "new": {"rate": 80.0}}] * 3
    facts = Facts(facts_of([RATE], sides=sides, earlier=rounds, ranks=2))
    explaining = Explaining(facts, [])
    for causes in (
        explaining.explain_slowness(Evaluation(facts, tmp_path), {("new", "rate")}, [], {})[0],
        explaining.explain_end({"new": Endings(1, 1)}, []),
    ):
        assert [(cause["side"], cause["sentence"]) for cause in causes] == [("new", f"/dev/shm holds 8 MiB in {where}")]
    # Where what it is compared with ended too, the container is not to blame.
    assert explaining.explain_end({"new": Endings(1, 1), measure: Endings(1, 1)}, []) == []
