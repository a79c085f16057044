"""Acceptance in real sessions: bare, OLD and NEW in one job, and what a later session goes on from."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import PLANTED, write_program


@pytest.mark.long
def test_two_images_take_turns_each_from_its_own_file(session, tmp_path):
    few = ("-S", "rounds=1", "-S", "strict_check=no")
    built = session("-n", "Planted%variant=generic", *few, checks=PLANTED).case("generic")["provenance"]["image"]
    other = tmp_path / "other.sif"
    shutil.copy(built, other)
    compared = json.dumps([["old", built], ["new", str(other)]])
    result = session("-n", "Planted%variant=generic", "-S", f"compared_images={compared}", *few, checks=PLANTED)
    passed = result.case("generic")
    assert passed["result"] == "pass", passed["fail_reason"]
    assert {name: image["image"] for name, image in passed["provenance"]["images"].items()} == {
        "old": built,
        "new": str(other),
    }
    scripts = {name: next(result.stage.rglob(f"{name}.sh")).read_text() for name in ("old", "new")}
    assert all(f" {name}.image.sif " in text for name, text in scripts.items())
    # One that is not there is no skip that could be taken for an answer.
    compared = json.dumps([["old", built], ["new", "/nowhere.sif"]])
    result = session("-n", "Planted%variant=generic", "-S", f"compared_images={compared}", *few, checks=PLANTED)
    assert "no image: /nowhere.sif, which is compared as new, does not exist" in result.output


def test_a_runtime_that_fails_is_named_and_the_others_are_judged_without_it(session, tmp_path):
    """One cannot be prepared on the node, one fails in each run of the program; of several kinds, beside bare."""
    if (ch_run := shutil.which("ch-run")) is None:
        pytest.skip("needs ch-run (Debian: charliecloud)")
    programs = {
        "broken": 'case "$*" in *--version*) exec "$REAL" "$@" ;; esac; echo "error: no loop devices left" >&2; exit 9',
        "dying": 'case "$*" in *work.sh*) echo "error: cannot enter the image" >&2; exit 9 ;; esac; exec "$REAL" "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).mkdir()
        write_program(tmp_path / name / "ch-run", f"REAL={ch_run}\n{text}\n")
    paths = {"apptainer": "apptainer", **{name: tmp_path / name / "ch-run" for name in programs}}
    runtimes = ",".join(f"{name}:{path}" for name, path in paths.items())
    words = ["-S", "rounds=3", "-S", "strict_check=no", "-S", f"runtimes={runtimes}"]
    result = session("-n", "Planted%variant=generic", *words, checks=PLANTED, USER="somebody")
    failed = result.case("generic")
    assert (failed["result"], failed["fail_phase"]) == ("fail", "sanity")
    assert "broken: it cannot be prepared: error: no loop devices left" in failed["fail_reason"]
    # On a machine with Charliecloud, one more run follows, to try it in place of the planted runtime.
    assert re.search(r"rounds 1(,| and) 2.*dying: exit status 9: error: cannot enter the image", failed["fail_reason"])
    assert {(row["subject_label"], row["baseline_label"]) for row in failed["results"]} == {("apptainer", "bare")}
    images = failed["provenance"]["images"]
    assert images["dying"]["image_source"]["sha256"] == images["apptainer"]["image_sha256"]
    assert Path(images["dying"]["image"]).is_dir()
    assert {frozenset(values) for values in failed["measured"]} == {frozenset({"baseline", "apptainer"})}


def test_bare_and_both_runtimes_run_in_one_job_and_a_changed_variable_is_named(session, tmp_path):
    wrapper = tmp_path / "newer" / "apptainer"
    # One that has lines which look like others', and a function of the shell's, are in every container.
    odd = {"MULTI": "a\n\nOMP_PLACES=c\n36 35 98:0 / / rw - ext4 /dev/sda1 rw", "BASH_FUNC_ml%%": "() {  echo 1\n\n}"}
    write_program(wrapper, 'export APPTAINERENV_OMP_PROC_BIND=true\nexec apptainer "$@"')
    compared = f"runtimes=old:apptainer,new:{wrapper}"
    few = ("-S", "rounds=1", "-S", "strict_check=no")
    result = session("-n", "Planted%variant=generic", "-S", compared, *few, checks=PLANTED, **odd)
    failed = result.case("generic")
    assert failed["fail_reason"].endswith("error: new: variable OMP_PROC_BIND is new: true"), result.output
    record = json.loads(next(result.stage.rglob("rounds.json")).read_text())
    assert {run["side"] for run in record["runs"]} == {"baseline", "old", "new"}
    same = compared.replace(str(wrapper), "apptainer")
    result = session("-n", "Planted%variant=generic", "-S", same, *few, **odd)
    passed = result.case("generic")
    assert passed["result"] == "pass", passed["fail_reason"]
    assert {(row["baseline_label"], row["subject_label"]) for row in passed["results"]} == {("old", "new")}
    assert set(passed["provenance"]["runtimes"]) == {"old", "new"}
