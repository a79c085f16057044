"""What programs say of their own build, in real output."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, facts_of, record_of, run_of
from containercheck import Identity, Metric
from containercheck.job import processes
from containercheck.job.explain.explanation import Explaining
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.verdict import builds


def test_the_first_run_that_succeeded_tells_the_build_of_its_side(tmp_path):
    runs = []
    for number, (side, version, status) in enumerate(
        [("baseline", 1, 3), ("baseline", 2, 0), ("baseline", 4, 0), ("subject", 3, 0)]
    ):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "out").write_text(f"version {version}\n")
        runs.append(run_of(side, f"{number}", status=status))
    identity = [Identity("version", r"^version (\S+)"), Identity("instruction set", r"^set (\S+)", file="log")]
    told = {"baseline": {"version": "2"}, "subject": {"version": "3"}}
    assert builds.read(identity, runs, tmp_path) == told
    assert builds.read([], runs, tmp_path) == {}


@pytest.mark.parametrize(("inside", "builds_named"), [("2", ["1 against 2"]), ("1", [])])
def test_another_build_is_a_possible_cause_of_a_slow_container(tmp_path, monkeypatch, inside, builds_named):
    monkeypatch.chdir(tmp_path)
    for side, version in (("baseline", "1"), ("subject", inside)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "out").write_text(f"version {version}\n")
    identity = [{"name": "version", "pattern": r"^version (\S+)$", "file": "out"}]
    rounds = [{"baseline": {"rate": 100.0}, "subject": {"rate": 80.0}}] * 3
    sides = [BARE, {**GENERIC, "contained": True}]
    facts = Facts({**facts_of([Metric("rate", "(x)", "x/s")], sides=sides, earlier=rounds), "identity": identity})
    explaining = Explaining(facts, [run_of("baseline", "baseline"), run_of("subject", "subject")])
    causes, _ = explaining.explain_slowness(Evaluation(facts, tmp_path), {("subject", "rate")}, [], {})
    sentence = "another build of the program runs in the container (the host's first: {})"
    assert [cause["sentence"] for cause in causes] == [sentence.format(each) for each in builds_named]


@pytest.mark.parametrize(
    ("inside", "line"),
    [
        ("packed", "same build, executable installed"),
        ("installed", "same build, executable installed"),
        ("other", "not the same build: installed against other"),
    ],
)
def test_the_same_tree_is_proven_by_the_executable_that_the_ranks_ran(tmp_path, inside, line):
    (tmp_path / "image.json").write_text(json.dumps({"tree": {"executable": ["installed", "packed"]}}))
    runs = [run_of("baseline", "1", executable="installed"), run_of("subject", "2", executable=inside)]
    found = builds.read([], runs, tmp_path)
    assert builds.difference(found["baseline"], found["subject"]) == line
    # Of other images nothing is claimed: each program that is compiled twice is another executable.
    (tmp_path / "image.json").write_text("{}")
    assert builds.read([], runs, tmp_path) == {}


#: OpenBLAS with threads, as Debian's alternative selects it on the host, and the one without threads in the image.
THREADED = {"libblas.so.3": "threaded", "libopenblasp-r0.3.21.so": "threads", "libgomp.so.1": "gomp"}
SERIAL = {"libblas.so.3": "serial", "libopenblas-r0.3.21.so": "no threads", "libgomp.so.1": "gomp"}


@pytest.mark.parametrize(
    ("inside", "line"),
    [
        (THREADED, "same build, executable program"),
        (
            SERIAL,
            "same build, executable program, with another libblas.so.3, libopenblas-r0.3.21.so of the operating system",
        ),
        # One side was looked at before it had loaded all.
        ({"libgomp.so.1": "gomp"}, "same build, executable program"),
        ({**THREADED, "libfftw3.so.3": "fftw"}, "same build, executable program"),
    ],
)
def test_the_same_build_names_other_libraries_of_the_operating_system_that_compute(tmp_path, inside, line):
    """The matrices of HPCC are multiplied in the BLAS, which is in no tree."""
    (tmp_path / "image.json").write_text(json.dumps({"tree": {"executable": ["program", "packed"]}}))
    runs = [
        run_of("baseline", "1", executable="program", libraries=THREADED),
        run_of("subject", "2", executable="packed", libraries=inside),
    ]
    found = builds.read([], runs, tmp_path)
    assert builds.difference(found["baseline"], found["subject"]) == line
    assert builds.joined(found) == {"baseline": "program", "subject": "program"}


#: Of the tree: digests of the installed libraries, by those of the packed ones.
PACKED = {"libgmx packed": "libgmx", "libfft": "libfft"}


@pytest.mark.parametrize(
    ("inside", "line"),
    [
        ({"libgmx.so.8": "libgmx packed", "libfft.so.3": "libfft"}, "same build, executable program and 2 libraries"),
        # One side was looked at before it had loaded all; MPI's own libraries, which the tree has not, may be others.
        ({"libgmx.so.8": "libgmx packed", "libhwloc.so.15": "lent"}, "same build, executable program and 1 library"),
        ({"libm.so.6": ""}, "same build, executable program"),
        # Debian's in place of the tree's; and one that was installed anew after the tree was packed.
        (
            {"libgmx.so.8": "libgmx packed", "libfft.so.3": ""},
            "not the same build: the same executable with another libfft.so.3",
        ),
        ({"libgmx.so.8": "rebuilt"}, "not the same build: the same executable with another libgmx.so.8"),
    ],
)
def test_a_build_is_the_same_only_if_the_libraries_of_its_tree_are(tmp_path, inside, line):
    tree = {"executable": ["program", "program packed"], "libraries": PACKED}
    (tmp_path / "image.json").write_text(json.dumps({"tree": tree, "path": "/i.sif", "sha256": "0"}))
    host = {"libgmx.so.8": "libgmx", "libfft.so.3": "libfft", "libhwloc.so.15": "", "libm.so.6": ""}
    runs = [
        run_of("baseline", "1", executable="program", libraries=host),
        run_of("subject", "2", executable="program packed", libraries=inside),
    ]
    found = builds.read([], runs, tmp_path)
    assert builds.difference(found["baseline"], found["subject"]) == line
    # Those that are seen depend on the moment: no later night compares them.
    assert builds.joined(found) == {"baseline": "program", "subject": "program"}
    known = builds.provenance(record_of(*({**run, "bound": []} for run in runs)), found, tmp_path)
    assert known["builds"] == {"baseline": {"executable": "program"}, "subject": {"executable": "program"}}
    assert known["image_tree"] == {"executable": tree["executable"]}


def test_the_libraries_of_a_process_are_known_while_it_runs(tmp_path):
    library = tmp_path / "libown.so.1"
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(library)], check=True)
    ctypes.CDLL(str(library))
    found = processes.digests_of_libraries(os.getpid())
    assert found["libown.so.1"] == hashlib.sha256(library.read_bytes()).hexdigest()
    assert found["libc.so.6"] == ""
    assert processes.digests_of_libraries(2**22 + 1) == {}


def test_the_executable_of_a_process_is_known_while_it_runs():
    program = Path("/proc/self/exe").read_bytes()
    assert processes.digest_of_program(os.getpid()) == hashlib.sha256(program).hexdigest()
    assert processes.digest_of_program(2**22 + 1) == ""


def test_an_identity_without_a_group_is_refused():
    with pytest.raises(ValueError, match="version: the pattern needs exactly one group"):
        Identity("version", "^version")
