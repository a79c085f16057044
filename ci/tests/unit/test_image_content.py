"""The bytes of an image's files, as a runtime gives them."""

from __future__ import annotations

import io
import os
import tarfile

import pytest
from conftest import write_program
from containercheck.job import contract
from containercheck.job.build import image_files


@pytest.fixture
def files(tmp_path):
    """Return a directory with 3000 bytes in two files, and with other names for them."""
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "program").write_bytes(b"x" * 2000)
    (root / "usr" / "bin" / "data").write_bytes(b"y" * 1000)
    os.link(root / "usr" / "program", root / "usr" / "bin" / "same")
    (root / "usr" / "bin" / "link").symlink_to("data")
    return root


def runtime(tmp_path, commands):
    """Return the path of a runtime that does this instead of running an image."""
    path = tmp_path / "apptainer"
    write_program(path, f'[ "$1" = exec ] || {{ echo "apptainer version 1.4.5"; exit; }}\n{commands}')
    return str(path)


def test_the_bytes_of_an_archive_are_those_of_its_files(files):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(files, "image")
    archive.seek(0)
    assert image_files.bytes_of_archive(archive) == 3000


def test_what_a_runtime_gives_is_counted(files, tmp_path):
    command = runtime(tmp_path, f"exec tar -C {files} -cf - usr")
    assert image_files.content_of_image(command, tmp_path / "image.sif") == {contract.CONTENT_BYTES: 3000}


@pytest.mark.parametrize(
    "commands",
    ["exit 1", "echo no archive", "tar -C {files} -cf - usr; exit 2", "tar -C {files} -cf - usr | head -c 900"],
)
def test_what_cannot_be_read_whole_has_no_size(commands, files, tmp_path):
    command = runtime(tmp_path, commands.format(files=files))
    assert image_files.content_of_image(command, tmp_path / "image.sif") == {}


def test_no_runtime_is_no_size(tmp_path):
    assert image_files.content_of_image(str(tmp_path / "apptainer"), tmp_path / "image.sif") == {}


def test_a_record_of_an_older_library_has_none():
    assert image_files.known_content({"bytes": 5}) == {}
    assert image_files.known_content({"bytes": 5, "content_bytes": 9}) == {"content_bytes": 9}
