"""Pictures of what a command shows in a terminal, and of a page."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY

#: A line that moves, which is written over, and two that stay.
SHOWN = r"printf 'first\nmoving 1\r\033[Kmoving 2\r\033[K\033[31mFAIL\033[0m second\n'; exit 3"


def test_a_picture_has_the_lines_that_stay_and_the_status_is_the_commands(tmp_path):
    picture = tmp_path / "run.svg"
    words = [sys.executable, str(REPOSITORY / "ci" / "picture"), "--title", "ci/run", str(picture), "sh", "-c", SHOWN]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, "")
    svg = picture.read_text().replace("&#160;", " ")
    assert svg.startswith("<svg")
    assert all(text in svg for text in ("first", "FAIL", "second", "ci/run"))
    assert "moving" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")


@pytest.mark.parametrize("words", [["run.svg"], ["page.png", "missing.html"]])
def test_without_a_command_or_a_page_nothing_is_drawn(words, tmp_path):
    words = [sys.executable, str(REPOSITORY / "ci" / "picture"), *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr.splitlines()[-1].startswith("picture: error: ")


@pytest.mark.skipif(not shutil.which("chromium-headless-shell"), reason="no Chromium on the PATH")
def test_a_page_is_drawn_in_its_size(tmp_path):
    (tmp_path / "page.html").write_text("<!DOCTYPE html><title>A page</title><p>of text")
    words = [sys.executable, str(REPOSITORY / "ci" / "picture"), "--width", "640", "--height", "320"]
    words += [str(tmp_path / "page.png"), str(tmp_path / "page.html")]
    subprocess.run(words, check=True, timeout=120)
    drawn = (tmp_path / "page.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert [int.from_bytes(drawn[place : place + 4], "big") for place in (16, 20)] == [640, 320]
