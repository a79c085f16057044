"""Image files and their digests: a job runs the image that was recorded, and each file is read once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys

import pytest
from conftest import PROGRAMS, entry_command, write_program
from containercheck.job import contract, locks
from containercheck.job.build import file_trees

#: A runtime whose containers have the files of a directory; it converts images, and runs them.
RUNTIME = """
case "$*" in
    *" env -0") exec env -0 ;;
    exec*) cd {files} && exec tar -cf - * ;;
    *) echo "{answer}" ;;
esac
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command as build step and job do in the stage directory."""
    for name in ("stage", "files", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "program").write_text("an image")
    for command, answer in (("apptainer", "apptainer version 1.4.5"), ("srun", "slurm --container-image")):
        write_program(tmp_path / "bin" / command, RUNTIME.format(files=tmp_path / "files", answer=answer))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "digests"))
    # A measurement on this machine holds the lock that conversions share.
    monkeypatch.setenv(locks.OTHER_DIRECTORY, str(tmp_path))

    def run(command):
        return subprocess.run(command, cwd=tmp_path / "stage", capture_output=True, text=True, timeout=60)

    return run


def build(run, tmp_path, kind):
    """Have the build step provide an image of this kind; return its commands, that of the job, and the file."""
    source = tmp_path / "source"
    if kind == "ready directory":
        source.mkdir()
        (source / "program").write_text("an image")
    else:
        source.write_text("an image")
    steps, link = [entry_command("ready", image=source, link="image.sif")], "image.sif"
    if kind in ("tree", "sqsh"):
        if kind == "sqsh" and shutil.which("mksquashfs") is None:
            pytest.skip("needs mksquashfs")
        runtime, link = {"tree": "ch-run", "sqsh": "srun"}[kind], f"image.{kind}"
        parts = {"builder": "apptainer", "runtime": runtime, "directory": tmp_path / "cache", "link": link}
        steps.append(entry_command("convert", source="image.sif", **parts))
    for command in steps:
        done = run(command)
        assert done.returncode == 0, done.stderr
    path = (tmp_path / "stage" / link).resolve()
    memory = tmp_path / f"containercheck-{os.geteuid()}-{16 * '0'}"
    start = {"way": "", "ranks": 0, "own_environment": False, "file": link, "required_option": ""}
    start["copy_to"] = f"{memory}/image.sif" if kind == "copied file" else ""
    stored = {"subject": {"commands": {}, "container": {"command": "apptainer", "image": link, "start": start}}}
    (tmp_path / "stage" / contract.COMMANDS).write_text(json.dumps(stored))
    job = [sys.executable, PROGRAMS, "runtime", "subject"]
    return steps, job, path / "program" if path.is_dir() else path


def replaced(file):
    """Replace a file by another one of the same size and of the same time."""
    times, content = file.stat(), file.read_bytes()
    (file.parent / "new").write_bytes(content[:-1] + b"E")
    os.utime(file.parent / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (file.parent / "new").replace(file)


@pytest.mark.parametrize("kind", ["ready file", "copied file", "ready directory", "tree", "sqsh"])
def test_a_job_refuses_another_image_than_the_one_that_is_recorded(run, tmp_path, kind):
    steps, job, file = build(run, tmp_path, kind)
    # Into memory, say: the copy is compared.
    memory = tmp_path / f"containercheck-{os.geteuid()}-{16 * '0'}"
    assert len(json.loads((tmp_path / "stage" / "image.json").read_text())["sha256"]) == 64
    # The same once more, in other files: on a node that has a copy.
    shutil.copy(file, file.parent / "copy")
    (file.parent / "copy").replace(file)
    assert run(job).returncode == 0
    if kind == "copied file":
        assert ((memory / "image.sif").read_text(), stat.S_IMODE(memory.stat().st_mode)) == ("an image", 0o700)
        shutil.rmtree(memory)
    replaced(file)
    done = run(job)
    assert (done.returncode, "is not the image that the build step found: its SHA-256 is " in done.stderr) == (1, True)
    if kind == "tree":
        # The build step makes it again.
        assert [run(command).returncode for command in (*steps, job)] == [0, 0, 0]
        assert file.read_text() == "an image"


@pytest.mark.parametrize("change", ["added", "removed", "link"])
def test_a_file_more_or_less_in_a_directory_is_another_image(run, tmp_path, change):
    _, job, file = build(run, tmp_path, "ready directory")
    # The mount points that jobs make; and what only others can read, in an image of root's.
    (file.parent / "opt" / "mount-point").mkdir(parents=True)
    assert run(job).returncode == 0
    if change == "added":
        (file.parent / "more").touch(mode=0o000)
    else:
        file.unlink()
        if change == "link":
            file.symlink_to("/elsewhere/program")
    assert "is not the image that the build step found" in run(job).stderr


@pytest.mark.parametrize(("runtime", "way"), [("apptainer", "unpacked"), ("ch-run", "")])
def test_setuid_programs_of_an_unpacked_image_lose_it(run, tmp_path, runtime, way):
    """As root, they were root's on the host, in a cache that everybody can read."""
    for name, mode in (("su", 0o4755), ("wall", 0o2755), ("open", 0o777)):
        (tmp_path / "files" / name).touch()
        (tmp_path / "files" / name).chmod(mode)
    (tmp_path / "image.sif").write_text("a file")
    assert run(entry_command("ready", image=tmp_path / "image.sif", link="image.sif")).returncode == 0
    parts = {"builder": "apptainer", "runtime": runtime, "way": way, "directory": tmp_path / "cache"}
    done = run(entry_command("convert", source="image.sif", link="image.tree", **parts))
    assert done.returncode == 0, done.stderr
    tree = tmp_path / "stage" / "image.tree"
    assert [stat.S_IMODE((tree / name).stat().st_mode) & ~0o755 for name in ("su", "wall", "open")] == [0, 0, 0]


# Digests that are kept


@pytest.fixture
def image(tmp_path, monkeypatch):
    """Make a file that was changed an hour ago, and count how often it is read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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
    # By another name it is the same file.
    link = path.with_name("link.sif")
    link.symlink_to(path)
    assert [file_trees.known_digest_of(name) for name in (path, path, link)] == [expected] * 3
    assert len(read) == 1


def test_a_file_that_was_changed_is_read_again_though_its_time_was_put_back(image):
    path, read = image
    file_trees.known_digest_of(path)
    times = path.stat()
    path.write_bytes(b"CONTENT")
    # Nobody can put that of its entry back; the kernel's clock has steps.
    while path.stat().st_ctime_ns == times.st_ctime_ns or path.stat().st_mtime_ns != times.st_mtime_ns:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_trees.known_digest_of(path) == hashlib.sha256(b"CONTENT").hexdigest()
    assert len(read) == 2
