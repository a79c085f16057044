"""A job runs the image that was recorded: a file, an image that was converted to one or to a directory, a ready one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, write_program
from containercheck.job import locks

NODE = REPOSITORY / "checks" / "containercheck" / "job"
#: A runtime whose containers have one file, which has eight bytes; it converts images, and runs them.
RUNTIME = """
case "$*" in
    *" env -0") exec env -0 ;;
    exec*) cd {files} && exec tar -cf - program ;;
    *) echo "{answer}" ;;
esac
"""


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a function that runs a program of the node, as build step and job do in the stage directory."""
    for name in ("stage", "files", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "program").write_text("an image")
    for command, answer in (("apptainer", "apptainer version 1.4.5"), ("srun", "slurm --container-image")):
        write_program(tmp_path / "bin" / command, RUNTIME.format(files=tmp_path / "files", answer=answer))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "digests"))
    # A measurement on this machine holds the lock that conversions share.
    monkeypatch.setenv(locks.OTHER_DIRECTORY, str(tmp_path))

    def run(*words):
        command = [sys.executable, NODE, *map(str, words)]
        return subprocess.run(command, cwd=tmp_path / "stage", capture_output=True, text=True, timeout=60)

    return run


def build(node, tmp_path, kind):
    """Have the build step provide an image of this kind; return the words for it in the job, and its file."""
    if kind.startswith("ready"):
        ready = tmp_path / "ready"
        if kind == "ready directory":
            ready.mkdir()
            ready = ready / "program"
        ready.write_text("an image")
        image = ready.parent if kind == "ready directory" else ready
        steps, link = [["image", "--ready", image, "--link", "image.sif"]], "image.sif"
    else:
        if kind == "sqsh" and shutil.which("mksquashfs") is None:
            pytest.skip("needs mksquashfs")
        (tmp_path / "source").write_text("a file")
        link, runtime = f"image.{kind}", {"tree": ["ch-run"], "sqsh": ["srun"]}[kind]
        convert = ["convert", "--source", "image.sif", "--builder", "apptainer", "--runtime", *runtime]
        convert += ["--cache", tmp_path / "cache", "--link", link]
        steps = [["image", "--ready", tmp_path / "source", "--link", "image.sif"], convert]
    for words in steps:
        done = node(*words)
        assert done.returncode == 0, done.stderr
    path = (tmp_path / "stage" / link).resolve()
    file = path / "program" if path.is_dir() else path
    return steps, ["runtime", "--command=apptainer", "--ranks=0", f"--image={link}", "subject"], file


def replaced(file):
    """Replace a file by another one of the same size and of the same time."""
    times, content = file.stat(), file.read_bytes()
    (file.parent / "new").write_bytes(content[:-1] + b"E")
    os.utime(file.parent / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (file.parent / "new").replace(file)


KINDS = ("ready file", "ready directory", "tree", "sqsh")


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_refuses_another_image_than_the_one_that_is_recorded(node, tmp_path, kind):
    _, job, file = build(node, tmp_path, kind)
    recorded = json.loads((tmp_path / "stage" / "image.json").read_text())
    assert len(recorded["sha256"]) == 64
    assert node(*job).returncode == 0
    # The same once more, in other files: on a node that has a copy.
    shutil.copy(file, file.parent / "copy")
    (file.parent / "copy").replace(file)
    assert node(*job).returncode == 0
    replaced(file)
    done = node(*job)
    assert (done.returncode, "is not the image that the build step found: its SHA-256 is " in done.stderr) == (1, True)


@pytest.mark.parametrize("kind", ["ready directory", "tree"])
@pytest.mark.parametrize("what", ["added", "removed", "link"])
def test_a_file_more_or_less_in_a_directory_is_another_image(node, tmp_path, kind, what):
    _, job, file = build(node, tmp_path, kind)
    # The mount points that jobs make.
    (file.parent / "opt" / "mount-point").mkdir(parents=True)
    assert node(*job).returncode == 0
    if what == "added":
        (file.parent / "more").touch()
    else:
        file.unlink()
        if what == "link":
            file.symlink_to("/elsewhere/program")
    assert "is not the image that the build step found" in node(*job).stderr


@pytest.mark.parametrize("kind", ["tree", "sqsh"])
def test_a_converted_image_that_was_changed_is_made_again(node, tmp_path, kind):
    """Of a directory, files and bytes were counted, and its digest was recorded."""
    steps, job, file = build(node, tmp_path, kind)
    replaced(file)
    assert file.read_bytes().endswith(b"E")
    assert [node(*words).returncode for words in steps] == [0, 0]
    assert not file.read_bytes().endswith(b"E")
    assert node(*job).returncode == 0


def test_what_only_others_can_read_in_a_directory_is_no_obstacle(node, tmp_path):
    """The site's own may be root's, with its /etc/shadow."""
    _, job, file = build(node, tmp_path, "ready directory")
    (file.parent / "shadow").touch(mode=0o000)
    assert node("image", "--ready", file.parent, "--link", "image.sif").returncode == 0
    assert node(*job).returncode == 0
