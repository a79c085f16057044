"""Cases of the full axes are generated only where somebody asks for them, and never left out silently."""

from __future__ import annotations

import pytest
from conftest import REPOSITORY
from containercheck.application import interface
from containercheck.command import run
from containercheck.session import reframe_process

STARTUP = REPOSITORY / "checks" / "startup.py"
LINE = f"25 more case(s) of all checks belong to the full axes: {interface.REQUEST}"


def test_a_plain_session_has_the_plain_cases_and_says_how_many_more_there_are(session, tmp_path):
    result = session("--dry-run", checks=STARTUP)
    assert {case["name"].split(" %", 1)[1].split(" ")[-1] for case in result.cases} == {"%circumstances=usual"}
    assert (len(result.cases), result.output.splitlines()[-1]) == (3, LINE)
    # containercheck run finds it in ReFrame's output.
    (tmp_path / "session.log").write_text(result.output)
    assert reframe_process.of_full_axes(tmp_path / "session.log") == LINE


def test_a_session_of_nothing_else_says_how_to_have_them(tmp_path, capsys):
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    place = reframe_process.Workplace(tmp_path, checks=str(STARTUP), config=tmp_path / "config.py")
    assert run.session(["--estimate", "-n", "circumstances=many_files"], place) == 2
    assert f"no check was run, but {LINE}" in capsys.readouterr().out


@pytest.mark.parametrize("request_", [("-S", "StartUp.full=yes"), ("-C", "config/common.py", "--mode=full")])
def test_who_asks_for_them_has_them_all(session, tmp_path, request_):
    (tmp_path / "config").symlink_to(REPOSITORY / "config")
    result = session("--dry-run", *request_, "-n", "variant=generic", checks=STARTUP)
    assert "more case(s)" not in result.output
    assert len(result.cases) > 10
