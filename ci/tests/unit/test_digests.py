"""Digests of files are kept: an image is read once, however many cases ask for it."""

from __future__ import annotations

import hashlib
import os

import pytest
from containercheck.job.build import file_trees


@pytest.fixture
def image(tmp_path, monkeypatch):
    """Make a file that was changed an hour ago, and count how often it is read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(file_trees, "SETTLED", -1.0)
    path = tmp_path / "image.sif"
    path.write_bytes(b"content")
    hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (hour_ago, hour_ago))
    read, real = [], file_trees.digest_of
    monkeypatch.setattr(file_trees, "digest_of", lambda path: read.append(path) or real(path))
    return path, read


def test_a_file_is_read_once(image):
    path, read = image
    expected = hashlib.sha256(b"content").hexdigest()
    assert [file_trees.known_digest_of(path) for _ in range(3)] == [expected] * 3
    # By another name it is the same file.
    link = path.with_name("link.sif")
    link.symlink_to(path)
    assert file_trees.known_digest_of(link) == expected
    assert len(read) == 1


@pytest.mark.parametrize("change", ["content", "another file", "time put back"])
def test_a_file_that_was_changed_is_read_again(image, change):
    path, read = image
    file_trees.known_digest_of(path)
    times = path.stat()
    if change == "another file":
        other = path.with_name("other")
        other.write_bytes(b"CONTENT")
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.replace(path)
    else:
        path.write_bytes(b"CONTENT")
        if change == "time put back":
            # Nobody can put that of its entry back; the kernel's clock has steps.
            while path.stat().st_ctime_ns == times.st_ctime_ns or path.stat().st_mtime_ns != times.st_mtime_ns:
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_trees.known_digest_of(path) == hashlib.sha256(b"CONTENT").hexdigest()
    assert len(read) == 2


def test_what_was_just_changed_is_not_trusted(image, monkeypatch):
    """Its next change could have the same time."""
    path, read = image
    monkeypatch.setattr(file_trees, "SETTLED", 3600.0)
    assert file_trees.known_digest_of(path) == file_trees.known_digest_of(path)
    assert len(read) == 2


@pytest.mark.parametrize("kept", ["", "[]", '{"stamp": null}', '{"sha256": "1"}'])
def test_what_is_kept_and_broken_is_ignored(image, tmp_path, kept):
    path, read = image
    file_trees.known_digest_of(path)
    (stored,) = (tmp_path / "cache" / "containercheck" / "digests").iterdir()
    stored.write_text(kept)
    assert file_trees.known_digest_of(path) == hashlib.sha256(b"content").hexdigest()
    assert len(read) == 2


def test_where_nothing_can_be_kept_it_is_read_each_time(image, tmp_path):
    path, read = image
    (tmp_path / "cache").write_text("no directory")
    assert (
        file_trees.known_digest_of(path) == file_trees.known_digest_of(path) == hashlib.sha256(b"content").hexdigest()
    )
    assert len(read) == 2
