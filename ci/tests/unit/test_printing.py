"""What prints without end, in one endless line, or bytes that are no text: it ends no job, and is said in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BARE, evaluation_of, facts_of, record_of, run_of, write_program
from containercheck import Answer, Metric
from containercheck.job import (
    contract,
    disturbance,
    observation,
    processes,
    runtime_start,
    single_run,
    start_ranks,
    texts,
    variables,
)
from containercheck.job.outputs import reading, reasons
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import UnreadableError
from hypothesis import example, given, settings
from hypothesis import strategies as st

#: Runs a script once, with a limit of its own, in a process of its own: what it leaves is killed by descent.
ONCE = """
import json
from pathlib import Path
from containercheck.job import processes, single_run
single_run.Watchdog.__init__.__defaults__ = ({most},)
processes.adopt_orphans()
print(json.dumps(single_run.run_once(Path("script.sh").read_text(), Path("output"), 60.0, ["md.log"], 0)))
"""
METRIC = Metric("rate", r"^rate (\S+)", "s")


def run_once(tmp_path, script, most):
    """Run a script once, and return its part of the record."""
    (tmp_path / "script.sh").write_text(script)
    done = subprocess.run(
        [sys.executable, "-c", ONCE.format(most=most)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=300
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; while :; do echo error: cannot open the file; done",
        "yes >md.log",
        # Below the script, and in a session of its own.
        "setsid sh -c 'yes' & sleep 50",
    ],
)
def test_a_program_that_prints_without_end_is_ended(script, tmp_path):
    run = run_once(tmp_path, script, 20 << 20)
    assert run["printed_too_much"] and not run["timed_out"]
    assert run["seconds"] < 45
    # Nothing of that size is left behind.
    assert single_run.size((tmp_path / "output").iterdir()) < 3 * single_run.KEPT
    kept = max((tmp_path / "output").iterdir(), key=lambda path: path.stat().st_size).read_bytes()
    assert b" bytes were left out here) ...\n" in kept
    judged = Evaluation(Facts(facts_of([METRIC], sides=[BARE])), tmp_path)
    judged.add({**run, "round": 1, "side": "baseline"})
    (problem,) = judged.final_problems()
    assert problem.startswith(f"round 1, baseline: {contract.PRINTED_TOO_MUCH} (its output: ")


def test_more_than_is_read_is_an_error_that_says_so(tmp_path, monkeypatch):
    (tmp_path / "out").write_text("rate 1\n" * 1000)
    assert reading.read_metric(METRIC, tmp_path) == 1.0
    monkeypatch.setattr(texts.read, "__defaults__", (1000,))
    with pytest.raises(
        UnreadableError, match=r"^rate: .*/out has 0 MiB; no more than 0 MiB are read, so that it is not"
    ):
        reading.read_metric(METRIC, tmp_path)


def test_a_pipe_in_the_place_of_an_output_is_an_error_and_no_wait(tmp_path):
    (tmp_path / "out").symlink_to("/dev/zero")
    with pytest.raises(UnreadableError, match="it is not a regular file"):
        reading.read_metric(METRIC, tmp_path)


def test_one_endless_line_is_a_short_reason(tmp_path):
    output = tmp_path / "1-baseline"
    output.mkdir()
    (output / "err").write_bytes(b"error: " + b"x" * (100 << 20))
    assert len(texts.ends(output / "err")) < 3 * texts.TAIL
    judged = Evaluation(Facts(facts_of([METRIC], sides=[BARE])), tmp_path)
    judged.add(run_of("baseline", output.name, status=1))
    (problem,) = judged.final_problems()
    assert problem.startswith("round 1, baseline: exit status 1: error: xxx") and len(problem) < 2 * texts.LINE
    assert "xxx... (" in problem


# Bytes that are not UTF-8, of whatever programs, /proc, images and schedulers print


#: Titles of an observation that has anything.
TITLES = ("environment", "limits", "status", "mounts", "cgroup", "cgroups", "space", "settings", "image", "end")


def _observed(place: Path) -> object:
    content = place.read_bytes()
    printed = b"".join(f"\n{observation.TITLE}{title}\n".encode() + content for title in TITLES)
    seen = observation.read(os.fsdecode(printed), b"key", {"APPTAINERENV_A": os.fsdecode(content)})
    variables.write_private(place.with_name("observed"), json.dumps(seen))
    return seen


def _program(place: Path) -> str:
    """Return a program that prints the bytes."""
    program = place.with_name("program")
    if not program.exists():
        write_program(program, f"cat {place}")
    return str(program)


def _evaluated(place: Path) -> object:
    """Return what is read of a run that printed the bytes, and its metric and answer."""
    place.with_name("out").write_bytes(place.read_bytes() + b"\nrate 1\nsum 1\n")
    place.with_name("err").write_bytes(place.read_bytes())
    facts = facts_of([Metric("rate", r"^rate (\S+)", "x")], [Answer("sum", r"^sum (\d+)")])
    runs = [run_of(side, ".", status=status) for status in (0, 3) for side in ("baseline", "subject")]
    result = evaluation_of(record_of(*runs), facts, place.parent)
    return [result.final_problems(), result.values()]


#: By what it reads: a function of the file with the bytes.
READERS = {
    "a file": texts.read,
    "its end": texts.tail,
    "both ends": texts.ends,
    "an observation": _observed,
    "a run": _evaluated,
    "a reason": lambda place: reasons.why(texts.tail(place), texts.tail(place)),
    "ranks that start": lambda place: [*start_ranks.read(texts.tail(place), 1)],
    "the watch on another node": lambda place: disturbance._parsed(place.read_bytes()),
    "a program": lambda place: processes.output_of([_program(place)]),
    "the version of a runtime": lambda place: runtime_start.identify(_program(place))[1],
    "the variables of a job": lambda place: [
        variables.redacted(name, os.fsdecode(place.read_bytes()), b"key") for name in ("PATH", "A_SECRET", "OTHER")
    ],
}


@pytest.mark.parametrize("name", READERS)
def test_bytes_end_no_reader_and_what_it_returns_can_be_published(tmp_path_factory, name):
    place = tmp_path_factory.mktemp("bytes") / "printed"

    @settings(max_examples=20)
    @given(st.binary(max_size=200))
    # A message of the day in Latin-1; variables; half a character.
    @example(b"Gr\xfc\xdfe vom Knoten\n")
    @example(b"A=\xfc\0B=\xff\0")
    @example(b"FATAL: \xed\xa0\x80 \xc3\n")
    def reads(content):
        place.write_bytes(content)
        found = texts.cleaned(READERS[name](place))
        json.dumps(found)
        str(found).encode()

    reads()
