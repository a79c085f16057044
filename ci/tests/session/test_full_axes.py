"""Cases of the full axes are generated only where somebody asks for them, and never left out silently."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conftest import REPOSITORY
from containercheck.application import command_line, requests
from containercheck.application.command_line import CommandLine
from containercheck.command import run
from containercheck.session import reframe_process

LISTED = [
    SimpleNamespace(display_name=f"HPL %variant=bare %size={size}", tags={"full"}, hashcode=f"{size:08x}")
    for size in (8000, 16000)
]
STARTUP = REPOSITORY / "checks" / "startup.py"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], CommandLine()),
        (["-c", "checks", "-rn", "HPL", "--name=IMB", "-x", "bare"], CommandLine((), ("HPL", "IMB"), ("bare",))),
        (["-l", "--tag", "full", "-Tx", "-S", "a=1"], CommandLine(("a=1",), (), (), ("full",), ("x",))),
        (["--restore-session", "--failed", "-r"], CommandLine(restores=True)),
        (["--restore-session=report.json"], CommandLine(restores=True)),
    ],
)
def test_the_command_line_is_read_as_reframe_reads_it(argv, expected):
    assert CommandLine.parse(argv) == expected


def test_options_of_a_mode_count_too(monkeypatch):
    options = {"modes/@short/options": ["-n 'HPL IMB'", "--setvar=full=yes"]}
    monkeypatch.setattr(command_line, "runtime", lambda: SimpleNamespace(get_option=options.get))
    found = CommandLine.parse(["--mode=short", "-S", "rounds=1"])
    assert found == CommandLine(("full=yes", "rounds=1"), ("HPL IMB",))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (CommandLine(), "2 more cases belong to the full axes: --full, or -S full=yes with reframe"),
        (CommandLine(names=("^HPL",)), "2 more cases belong to the full axes and match the selection: --full"),
        (CommandLine(names=("size=8000",)), "1 more case belongs to the full axes and matches the selection: --full"),
        (CommandLine(names=("/00001f40",)), "1 more case belongs"),
        (CommandLine(excluded_names=("size=8000",)), "1 more case belongs"),
        (CommandLine(tags=("full",)), "2 more cases"),
        (CommandLine(excluded_tags=("full",)), ""),
        (CommandLine(names=("IMB",)), ""),
        # What is restored was chosen before.
        (CommandLine(restores=True), ""),
    ],
)
def test_the_line_counts_what_the_command_line_would_select(asked, said, tmp_path):
    line = requests.line(LISTED, asked)
    assert line.startswith(said) and bool(line) == bool(said)
    # ci/run finds it in ReFrame's output.
    (tmp_path / "session.log").write_text(f"[  PASSED  ] Ran 2/2 test case(s)\n{line}\n")
    assert reframe_process.of_full_axes(tmp_path / "session.log") == line


def test_a_plain_session_has_the_plain_cases_and_says_how_many_more_there_are(session):
    result = session("--dry-run", checks=STARTUP)
    assert {case["name"].split(" %", 1)[1].split(" ")[-1] for case in result.cases} == {"%circumstances=usual"}
    assert len(result.cases) == 3
    assert result.output.splitlines()[-1] == f"25 more cases belong to the full axes: {requests.REQUEST}"


@pytest.mark.parametrize("selection", [("-n", "circumstances=many_files"), ("-t", "full", "-n", "=many_files")])
def test_cases_that_only_the_full_axes_have_are_not_missed_silently(session, selection):
    result = session("--dry-run", *selection, checks=STARTUP)
    assert not result.cases
    assert "3 more cases belong to the full axes and match the selection" in result.output


def test_a_session_of_nothing_else_says_how_to_have_them(tmp_path, capsys):
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    place = reframe_process.Workplace(tmp_path, checks=str(STARTUP), config=tmp_path / "config.py")
    assert run.session(["--estimate", "-n", "circumstances=many_files"], place) == 2
    said = "no check was run, but 3 more cases belong to the full axes and match the selection: --full, or -S full=yes"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "request_", [("-S", "full=yes"), ("-S", "StartUp.full=yes"), ("-C", "config/common.py", "--mode=full")]
)
def test_who_asks_for_them_has_them_all(session, tmp_path, request_):
    (tmp_path / "config").symlink_to(REPOSITORY / "config")
    result = session("--dry-run", *request_, "-n", "variant=generic", checks=STARTUP)
    assert "more cases belong" not in result.output
    assert len(result.cases) > 10
