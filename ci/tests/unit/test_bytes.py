"""Bytes that are not UTF-8 end no job: whatever programs, /proc, images and schedulers print."""

from __future__ import annotations

import collections
import json
import os
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY, evaluation_of, facts_of, record_of, run_of, write_program
from containercheck import Answer, Metric
from containercheck.job import (
    disturbance,
    launch,
    observation,
    processes,
    run_observation,
    runtime_start,
    start_ranks,
    texts,
    variables,
)
from containercheck.job.outputs import reasons
from containercheck.session import reframe_process
from containercheck.site import jobs
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


def _named(place: Path, name: str) -> Path:
    """Return the directory of a file with this name and the bytes."""
    place.with_name(name).write_bytes(place.read_bytes())
    return place.parent


def _written(place: Path) -> str:
    """Return a text that a person has to write again."""
    try:
        return texts.utf8(place)
    except OSError as error:
        return str(error)


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
    "what a process has mapped": lambda place: [*map(sorted, run_observation.mapped(_named(place, "maps")))],
    "what a person wrote": _written,
    "what holds few words": texts.small,
    "a log": lambda place: [line.decode(errors="replace") for line in texts.NewLines(place).read()],
    "a session's log": reframe_process.last_error,
    "the end of a job": jobs.last_line,
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


#: How often a module reads a text as it is, as it is ASCII: numbers of the kernel, and files of the library.
ASCII = {
    "application/interface": 1,
    "job/disturbance": 1,
    "job/energy": 3,
    "job/locks": 1,
    "job/neighbours": 1,
    "job/processes": 1,
    "job/run_observation": 6,
    "job/runtime_start": 1,
    "job/variables": 1,
    "report/page/plots": 1,
    "results/exported": 1,
    "session/reframe_process": 1,
    "site/sites": 1,
    "software/__init__": 1,
}
UNSAFE = re.compile(r"\.read_text\(\)|\.decode\(\)|text=True,(?!\s*errors=)")


def test_a_text_is_read_as_utf_8_only_with_an_answer_to_other_bytes():
    """By ``texts.read``, ``small`` or ``utf8``, with ``errors=``, or in a file of JSON that the library wrote."""
    library, found = REPOSITORY / "checks" / "containercheck", collections.Counter()
    for path in library.rglob("*.py"):
        code = re.sub(r"json\.loads\([^\n]*", "", path.read_text())
        found[str(path.relative_to(library).with_suffix(""))] += len(UNSAFE.findall(code))
    assert +found == collections.Counter(ASCII)


def test_a_list_of_a_person_in_latin_1_is_an_error_with_its_place(tmp_path):
    (tmp_path / "list").write_bytes(b"# Gr\xfc\xdfe\n")
    with pytest.raises(OSError, match="byte 5 is not UTF-8"):
        texts.utf8(tmp_path / "list")


def test_a_path_in_other_bytes_reaches_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("image").write_bytes(b"/images/Gr\xfc\xdfe.sif")
    Path("commands.json").write_text(
        json.dumps({"subject": {"commands": {"run": "run {{content of image}}"}, "container": {}}})
    )
    assert os.fsencode(launch.Launch("subject").script("run")) == b"run '/images/Gr\xfc\xdfe.sif'"
