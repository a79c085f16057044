"""Bytes that are not UTF-8 end no job: whatever programs, /proc, images and schedulers print."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import evaluation_of, facts_of, record_of, run_of, write_program
from containercheck import Answer, Metric
from containercheck.job import disturbance, observation, processes, runtime_start, start_ranks, texts, variables
from containercheck.job.outputs import reasons
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
