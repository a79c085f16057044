"""What nobody uses for long is removed from the caches, and nothing else."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time

import pytest
from conftest import PROGRAMS, REPOSITORY
from containercheck.job import locks
from containercheck.job.build.cache import MARK, make_directory
from containercheck.job.build.compiled import Program
from containercheck.session import preconditions
from users import ALICE, need_root

OLD = 100 * 86400.0


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a cache."""
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "machine.lock")
    monkeypatch.setattr(locks, "TURN_LOCK", tmp_path / "turn.lock")
    make_directory(tmp_path / "cache")
    return tmp_path / "cache"


def program(cache, name="tiny", content=""):
    """Return a program, built into a cache."""
    source = cache.parent / "source" / "tiny.cpp"
    source.parent.mkdir(exist_ok=True)
    source.write_text(f"int main() {{ return 0; }} {content}\n")
    made = Program(name, cache, platform.machine(), source, "openmpi", compiler="g++")
    made.ensure()
    return made


def unused(path, seconds=OLD):
    """Have a path used last so many seconds ago."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def clean(*words):
    """Clean, and return what it prints."""
    done = subprocess.run([REPOSITORY / "ci" / "clean", *words], capture_output=True, text=True, check=True)
    return done.stdout


def names(cache):
    """Return what is in a cache."""
    known = (".log", ".lock", MARK)
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(known))


def test_what_was_not_used_for_long_is_removed_with_its_record(cache):
    old, new = program(cache), program(cache, content="// new")
    unused(old.record)
    said = clean("--dry-run", "--older", "90d", cache)
    assert f"{old.path}: 0 MiB, not used for 100 days: would be removed\n0 MiB would be removed\n" == said
    # Nobody used it by asking.
    assert clean("--dry-run", "--older", "90d", cache) == said
    assert old.path.exists()
    assert f"{old.path}: 0 MiB, not used for 100 days: removed" in clean("--older", "90d", cache)
    assert names(cache) == [new.path.name, new.record.name]
    # What is taken counts as used.
    unused(new.record)
    new.ensure()
    assert clean("--older", "90d", cache) == "0 MiB removed\n"


def test_a_cache_in_which_something_is_built_stays(cache):
    made, other = program(cache), program(cache, "other")
    left = cache / f".tiny-building-{os.getuid()}-host-1-abc"
    left.mkdir()
    for path in (made.record, other.record, left):
        unused(path)
    before = names(cache)
    with locks.flocked(cache / "tiny.lock", shared=False, waiting=""):
        said = clean("--older", "90d", cache)
    assert said.startswith(f"{cache}: stays: waited 0 s for the lock {cache}/tiny.lock, held by ")
    assert names(cache) == before
    clean("--older", "90d", cache)
    assert names(cache) == []


def test_packages_go_with_the_last_entry_that_needs_them(cache):
    """Of Spack each in its prefix, of EasyBuild in one tree for each target."""
    tree, module_tree = cache / "tree" / "linux", cache / "tree-haswell"
    for name in ("needed-1", "gone-2"):
        (tree / name / ".spack").mkdir(parents=True)
        (tree / name / ".spack" / "spec.json").write_text("{}")
        unused(tree / name / ".spack" / "spec.json")
    (module_tree / "software").mkdir(parents=True)
    unused(module_tree)
    facts = {"hpcg-haswell-123": {"bytes": 1, "prefixes": [str(tree / "needed-1")]}, "HPL-haswell-123": {"bytes": 1}}
    for name, record in facts.items():
        (cache / name).mkdir()
        (cache / f"{name}.json").write_text(json.dumps(record))
    (cache / "HPL-haswell-123" / "dependencies").symlink_to(module_tree)
    assert clean("--older", "90d", cache).splitlines()[0].startswith(f"{tree}/gone-2: ")
    assert [path.name for path in tree.iterdir()] == ["needed-1"] and module_tree.exists()
    for name in facts:
        unused(cache / f"{name}.json")
    clean("--older", "90d", cache)
    assert list(tree.iterdir()) == [] and not module_tree.exists()
    assert names(cache) == ["tree"]


def test_directories_of_old_cases_go_and_a_session_keeps_its_own(cache, tmp_path):
    stage, case = tmp_path / "stage", "here/only/builtin"
    for name in ("old", "new"):
        (stage / case / name).mkdir(parents=True)
        (stage / case / name / "rfm_job.sh").touch()
    unused(stage / case / "old")
    (stage / "no-case").mkdir()
    unused(stage / "no-case")
    words = ["--stage", str(stage), str(cache)]
    with preconditions.held([stage]):
        assert clean(*words).startswith(f"{stage}: stays: waited 0 s for the lock")
    assert "/old: 0 MiB, not used for 100 days: removed" in clean(*words)
    assert sorted(path.name for path in [*stage.iterdir(), *(stage / case).iterdir()]) == [
        preconditions.LOCK,
        "here",
        "new",
        "no-case",
    ]


def test_the_lock_of_a_session_is_the_one_that_cleaning_asks_for(cache, tmp_path):
    case = tmp_path / "stage" / "case"
    case.mkdir(parents=True)
    (case / "rfm_job.sh").touch()
    unused(case)
    with preconditions.held([tmp_path / "stage"]):
        clean("--stage", str(tmp_path / "stage"), str(cache))
        assert case.exists()
    clean("--stage", str(tmp_path / "stage"), str(cache))
    assert not case.exists()


@pytest.mark.parametrize("built", [False, True], ids=["never a cache", "named as a cache"])
def test_what_somebody_keeps_in_a_directory_of_their_own_stays(cache, tmp_path, built):
    """Whatever was older than 90 days was removed, in any directory that was named."""
    own = tmp_path / "own"
    own.mkdir()
    kept = [own / "thesis.tex", own / "results.db"]
    for path in kept:
        path.touch()
        unused(path)
    if built:
        unused(program(own).record)
    unused(program(cache).record)
    before = sorted(own.iterdir())
    done = subprocess.run([REPOSITORY / "ci" / "clean", cache, own], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {own} does not have the mark of a cache: nothing was removed. ")
    assert done.stderr.endswith(f"mark it: touch {own}/{MARK}\n") and done.stderr.count("\n") == 1
    assert sorted(own.iterdir()) == before and len(names(cache)) == 2
    # Once it is marked, it is cleaned, and keeps the mark.
    subprocess.run(done.stderr.rpartition("mark it: ")[2], shell=True, check=True)
    unused(own / MARK)
    clean(own)
    assert names(own) == [] and (own / MARK).exists()


def test_the_users_own_caches_need_no_mark(tmp_path, monkeypatch):
    """Their places are theirs by name, and older versions made them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images = tmp_path / "containercheck" / "images"
    images.mkdir(parents=True)
    for words in ((), (images,)):
        (images / "old.sif").touch()
        unused(images / "old.sif")
        clean(*words)
        assert list(images.iterdir()) == []


@need_root
def test_what_others_own_stays(cache):
    made = program(cache)
    unused(made.record)
    os.chown(made.path, ALICE, ALICE)
    assert clean("--older", "90d", cache) == "0 MiB removed\n"
    assert made.path.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--older", "soon"], "soon is not an age: write 90d for days"),
        (["/no/such/cache"], "error: no directory /no/such/cache"),
    ],
)
def test_mistakes_are_told(words, told):
    command = [sys.executable, PROGRAMS, "clean", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
