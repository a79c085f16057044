"""The report as a page, by its command."""

from __future__ import annotations

import os
import subprocess
import sys

import made
import pytest
from conftest import REPOSITORY


def test_only_who_draws_a_page_loads_matplotlib():
    code = (
        "import sys; import containercheck.report.page, containercheck.report.table; print('matplotlib' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("False\n", "")


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "containercheck", "report", *map(str, arguments)], capture_output=True, text=True
    )


def test_a_database_becomes_a_page_by_one_command(tmp_path):
    path = made.store(
        tmp_path / "results.db", [made.session(night, [made.case(rows=[made.row()])]) for night in range(2)]
    )
    # Its directory is made where there is none.
    page = tmp_path / "pages" / "today" / "night.html"
    result = command("--html", page, "--database", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"written: {page}, ")
    assert "2 nights of history" in page.read_text()


def test_a_python_without_what_the_page_needs_is_told_what_to_install(tmp_path):
    # Without its own packages, this Python is any other one.
    words = [sys.executable, "-S", "-m", "containercheck", "report", "--html", str(tmp_path / "x.html")]
    own = {**os.environ, "PYTHONPATH": str(REPOSITORY / "checks")}
    result = subprocess.run(words, env=own, capture_output=True, text=True)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"report: error: {sys.executable} has no numpy, scipy, matplotlib, jinja2, which the page")
    assert "run .venv/bin/containercheck report" in line


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--database", "x.db"], 64, "name either reports"),
        (["--html", "x.html", "report.json"], 64, "name either reports"),
        (["--htm", "x.html"], 64, "report: error: unrecognized arguments: --htm"),
        (["--html", "x.html", "--database", "none.db"], 2, "report: error: there is no results database none.db"),
    ],
)
def test_what_cannot_be_shown_is_an_error_in_one_line(arguments, status, said):
    result = command(*arguments)
    assert result.returncode == status
    assert said in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
