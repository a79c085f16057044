"""Pictures of what a command shows in a terminal, and of a page."""

from __future__ import annotations

import subprocess
import sys

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
