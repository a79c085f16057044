"""The command line: what each command takes, what its help says, and what is wrong with a line in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import run_command
from containercheck.command import parsers
from containercheck.command.parsers import COMMANDS
from containercheck.session.usage import OPTIONS


def command(*words, **environment):
    done = run_command(*words, **environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_option_of_the_command_and_an_example_that_it_understands(name):
    said = parsers.parser(name).format_help()
    assert said.startswith(f"usage: containercheck {name} ")
    assert all(f"{option} " in said or f"{option}\n" in said for option in COMMANDS[name].options)
    assert "exit status:\n  0 " in said
    examples = re.findall(rf"^  containercheck {name}(.*?)   ", said.partition("examples:\n")[2], re.MULTILINE)
    assert len(examples) == len(COMMANDS[name].examples) >= 2
    for words in examples:
        own = [word.partition("=")[0] for word in words.split() if word.startswith("--")]
        # Those of a sweep over nodes are ReFrame's.
        assert {*own} <= {*COMMANDS[name].options, "--resume", "--distribute", "--nodelist"}


def test_the_whole_has_a_help_too():
    assert command("nodes", "--help") == (0, parsers.parser("nodes").format_help(), "")
    status, said, _ = command("--help")
    assert status == 0
    # A long summary goes on in the next line.
    assert all(command.summary in " ".join(said.split()) for command in COMMANDS.values())


def test_every_command_has_statuses_of_the_one_table():
    assert all({0} <= {*command.statuses} <= {0, 1, 2} < {*parsers.STATUSES} for command in COMMANDS.values())


def test_every_option_belongs_to_a_command():
    assert {*OPTIONS} == {option for command in COMMANDS.values() for option in command.options}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "containercheck: error: the following arguments are required: COMMAND"),
        (["nightli", "--help"], "containercheck: error: argument COMMAND: invalid choice: 'nightli' (choose from "),
        (["--minutes", "5"], "containercheck: error: the following arguments are required: COMMAND"),
        (["run", "--minutes", "x"], "run: error: argument --minutes: 'x' is not a number above 0"),
        (["report", "--htm", "x"], "report: error: unrecognized arguments: --htm"),
        (["report", "--database", "x.db"], "report: error: name either reports"),
        (["run", "--open"], "run: error: --open is now --resume"),
        (["nightly", "--changed=x"], "nightly: error: --changed is now --acknowledge"),
        (["run", "-n", "estimate", "--minutes", "x"], "run: error: argument --minutes: 'x' is not a number above 0"),
        (["estimate"], "containercheck: error: estimate is now run --estimate"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, said):
    code, out, wrong = command(*words)
    assert (code, out, len(wrong.splitlines())) == (64, "", 1)
    assert wrong.startswith(said)


def completed(tmp_path, line):
    """Return what the shell is offered after a line, as argcomplete's own part of it asks."""
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    command(**asked, _ARGCOMPLETE_STDOUT_FILENAME=str(answer))
    return {word.strip() for word in answer.read_text().splitlines()}


def test_the_shell_completes_commands_and_their_options(tmp_path):
    assert completed(tmp_path, "containercheck ") >= {*COMMANDS}
    assert completed(tmp_path, "containercheck n") == {"nightly", "nodes"}
    assert completed(tmp_path, "containercheck nightly --no") == {"--node-hours"}
    assert completed(tmp_path, "containercheck report --") == {"--help", "--html", "--database"}


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        # Completion; and a table, which does without the packages of a page.
        ("from containercheck.command import main; main.parser()", {"numpy", "scipy", "reframe", "sqlite3"}),
        ("import containercheck.command.report, containercheck.command.nightly", {"matplotlib"}),
    ],
)
def test_a_command_loads_only_the_packages_that_it_needs(code, packages):
    words = [sys.executable, "-c", f"{code}; import sys; print({packages} & {{*sys.modules}})"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_what_is_no_option_of_ours_goes_on_to_reframe():
    known, rest, _ = parsers.parsed("run", ["-n", "HPCC", "--minutes", "5", "-S", "seconds=60", "--exec-policy=async"])
    assert (known.minutes, rest) == (5.0, ["-n", "HPCC", "-S", "seconds=60", "--exec-policy=async"])


@pytest.mark.parametrize("words", [["-C", "{}"], ["--config-file={}"], ["-c", "{}"], ["--checkpath={}"]])
def test_a_file_of_the_current_directory_is_meant_wherever_reframe_runs(tmp_path, monkeypatch, words):
    (tmp_path / "site.py").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    passed_on = lambda path: parsers.parsed("run", [word.format(path) for word in words])[1]  # noqa: E731
    assert passed_on("../site.py") == [word.format(tmp_path / "site.py") for word in words]
    # In a checkout, ReFrame finds this one below it.
    assert passed_on("config/kay.py") == [word.format("config/kay.py") for word in words]
    assert parsers.parsed("run", ["-n", "../site.py"])[1] == ["-n", "../site.py"]


FAULTY = """
import importlib, sys
from containercheck.command import main
def broken(*words):
    raise {error}
importlib.import_module(f"containercheck.command.{{sys.argv[1]}}").main = broken
main.main()
"""


def faulty(name, error, directory):
    words = [sys.executable, "-c", FAULTY.format(error=error), name]
    environment = {**os.environ, "TMPDIR": str(directory)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


# One that runs checks, and one that does not: the mechanism is that of all commands.
@pytest.mark.parametrize("name", ["run", "report"])
def test_a_fault_of_ours_has_a_status_of_its_own_and_its_traceback(name, tmp_path):
    status, said = faulty(name, "KeyError('planted')", tmp_path)
    first, *_, error, last = said.splitlines()
    assert (status, first, error) == (70, "Traceback (most recent call last):", "KeyError: 'planted'")
    assert last == f"{name}: error: a fault of containercheck, and no result of the checks: report it"
    assert all("70   a fault of containercheck itself" in parsers.parser(each).format_help() for each in COMMANDS)


def test_a_full_disk_is_no_fault_of_ours(tmp_path):
    status, said = faulty("run", "OSError(28, 'No space left on device', '/reports/x')", tmp_path)
    assert (status, said) == (2, "run: error: [Errno 28] No space left on device: '/reports/x'\n")
