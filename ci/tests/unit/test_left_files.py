"""Files that runs leave in shared memory are counted and told, each run's own only."""

from __future__ import annotations

import mmap
import uuid
from pathlib import Path

import pytest
from conftest import findings_of, record_of, run_of
from containercheck.job.single_run import SHARED_MEMORY, entries, left, run_once
from containercheck.sides.sides import Program, Side

GENERIC = Side("subject", "generic", Program("x"))


def told(*facts):
    """Return the remarks on runs with such facts."""
    runs = [run_of("subject", "", number, **each) for number, each in enumerate(facts, 1)]
    return findings_of(record_of(*runs), [GENERIC]).remarks()


@pytest.fixture
def segment():
    """Name a file in shared memory, and remove it afterwards."""
    path = Path(SHARED_MEMORY, f"containercheck-test-{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


def test_a_segment_that_a_run_leaves_is_told_with_its_size(tmp_path, segment):
    run = run_once(f"head -c 8192 /dev/zero >{segment}\n", tmp_path / "output", 60, [], 0)
    assert "left_temporary" in run
    # Other tests may leave some at the same time.
    assert run["left_files"]["count"] >= 1 and run["left_files"]["bytes"] >= 8192
    (line,) = told({"left_files": {"count": 1, "bytes": 8192, "names": [segment.name]}})
    assert line.startswith(f"generic: 1 of its runs left files in /dev/shm, up to 1 of 8 KiB ({segment.name})")


def test_what_a_living_process_has_was_not_left(tmp_path):
    """Mapped by it, or opened: of another session on the machine."""
    for name in ("left", "mapped", "opened"):
        (tmp_path / name).write_text("12")
    with (tmp_path / "mapped").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with (tmp_path / "opened").open():
        assert left({}, str(tmp_path))["names"] == ["left"]
    mapped.close()
    assert left({}, str(tmp_path))["names"] == ["left", "mapped", "opened"]


def test_what_each_run_leaves_in_tmp_is_told(tmp_path):
    (tmp_path / "there").write_text("1")
    before = entries(str(tmp_path))
    (tmp_path / "rootfs-1").mkdir()
    (tmp_path / "file").write_text("12")
    (tmp_path / "link").symlink_to("file")
    with (tmp_path / "opened").open("w"):
        new = left(before, str(tmp_path))
    assert new == {"count": 2, "bytes": 2, "names": ["file", "rootfs-1"]}
    assert entries(str(tmp_path / "nowhere")) == {}
    (line,) = told({"left_temporary": new}, {"left_temporary": new})
    assert line.startswith("generic: 2 of its runs left files in /tmp, up to 2 of 2 B (file, rootfs-1): ")
    assert told({"left_temporary": new}, {"left_temporary": {}}) == told({}) == []
