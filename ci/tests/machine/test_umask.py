"""Under a umask that lets a group write, nothing that runs on the next night is for the group to change."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest
from conftest import REPOSITORY, entry_command


@pytest.fixture
def checkout(tmp_path):
    """Make what a script sees of a checkout: a few directories, and the shared part."""
    place = tmp_path / "checkout"
    (place / "ci").mkdir(parents=True)
    shutil.copy(REPOSITORY / "ci" / "lib.sh", place / "ci")
    for name in ("checks", "config"):
        (place / name).mkdir()
        (place / name / "file.py").write_text("\n")
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def shell(checkout, commands):
    """Run commands of the shell that has read the shared part."""
    script = f"umask 002; . {checkout}/ci/lib.sh; {commands}"
    return subprocess.run(["bash", "-euc", script], cwd=checkout, capture_output=True, text=True, check=True)


def test_scripts_take_the_groups_right_to_write_away(checkout):
    assert shell(checkout, "umask; touch new; stat -c %a new").stdout == "0022\n644\n"


def test_programs_of_the_library_do_too(tmp_path):
    (tmp_path / "input").write_text("input\n")
    pin = hashlib.sha256(b"input\n").hexdigest()
    reference = f"file://{tmp_path}/input#sha256={pin}"
    words = entry_command("download", reference=reference, directory=tmp_path / "cache", link=tmp_path / "link")
    subprocess.run(["bash", "-c", 'umask 002; exec "$@"', "bash", *words], check=True)
    made = [path for path in (tmp_path / "cache", *(tmp_path / "cache").rglob("*")) if not path.is_symlink()]
    assert len(made) > 2
    assert [path for path in made if path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("path", [".", "config/file.py"])
def test_what_others_may_change_is_warned_of(path, checkout):
    assert shell(checkout, "warn_of_writers").stderr == ""
    (checkout / path).chmod((checkout / path).stat().st_mode | 0o002)
    said = shell(checkout, "warn_of_writers").stderr
    assert f"may change what is run here, such as {(checkout / path).resolve()}: chmod -R g-w,o-w {checkout}\n" in said
