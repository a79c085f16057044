"""Mistakes and lacks of a first-time user: each is one line, which says what to do."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import containercheck
import pytest
from conftest import run_command, write_program
from containercheck.command import main, parsers, run
from containercheck.job.build import cache
from containercheck.session import preconditions, reframe_process
from containercheck.session.reframe_process import Workplace
from containercheck.session.usage import UsageError
from made import case

SITE = """site_configuration = {"systems": [{"name": "volta", "hostnames": ["login[0-9]"], "partitions": [
    {"name": "compute", "scheduler": "local", "launcher": "local", "environs": ["builtin"]}]}]}
"""


@pytest.fixture
def site_file(tmp_path):
    """Write a site file for another host."""
    path = tmp_path / "site.py"
    path.write_text(SITE)
    return path


@pytest.fixture
def refusal(monkeypatch, tmp_path):
    """Return the message with which a session is refused."""
    for name in [name for name in os.environ if name.startswith("RFM_")]:
        monkeypatch.delenv(name)

    def refused(*arguments):
        with pytest.raises(UsageError) as error:
            preconditions.require(arguments, Workplace(report_file=tmp_path / "report.json"))
        assert "\n" not in str(error.value)
        return str(error.value)

    return refused


# The system


def test_a_system_that_no_file_has(refusal, site_file):
    said = "no system 'vota': name the file that has it, -C FILE or RFM_CONFIG_FILES=FILE, or correct its name"
    assert refusal("--system=vota") == refusal("--system=vota", "-C", str(site_file)) == said


def test_a_site_file_for_other_hosts_is_not_silently_left_alone(refusal, site_file):
    said = refusal("-C", str(site_file))
    assert f"no system of {site_file} is for this host, " in said
    assert said.endswith(": name it, --system=volta; or add the host to its hostnames")


def test_a_wrong_extra_is_one_line_before_the_cases(refusal, site_file):
    site_file.write_text(SITE.replace('"environs"', '"extras": {"containercheck": {"max_node": 3}}, "environs"'))
    said = refusal("-C", str(site_file), "--system=volta")
    assert said == "site file, extras of volta:compute: containercheck: unknown 'max_node': did you mean 'max_nodes'?"


def test_lmod_without_its_variables_is_an_error_that_names_the_login_shell(refusal, site_file, monkeypatch):
    monkeypatch.delenv("LMOD_CMD", raising=False)
    site_file.write_text(SITE.replace('"hostnames"', '"modules_system": "lmod", "hostnames"'))
    said = refusal("-C", str(site_file), "--system=volta")
    assert said.endswith("environment variable LMOD_CMD is not defined: use a login shell, bash -lc")


@pytest.fixture
def dry_run(monkeypatch, tmp_path):
    """Return a place in which the dry run of ReFrame leaves a report of these cases."""

    def of(*cases):
        def reframe(words, *_):
            file = next(word.partition("=")[2] for word in words if word.startswith("--report-file="))
            Path(file).write_text(json.dumps({"runs": [{"testcases": cases}]}))
            return 1

        monkeypatch.setattr(reframe_process, "reframe", reframe)
        monkeypatch.setattr(
            preconditions, "require", lambda arguments, place, **_: replace(place, stage_directory=tmp_path)
        )
        return Workplace(tmp_path, report_file=tmp_path / "report.json")

    return of


def test_a_fact_of_the_site_file_that_is_wrong_for_a_check_is_one_line_for_all_its_cases(dry_run, capsys):
    mistake = {
        "result": "fail",
        "fail_reason": "site error: site file, tolerances",
        "fail_info": {"exc_type": "SiteError"},
    }
    place = dry_run(*(case(variant=variant, **mistake) for variant in ("bare", "generic")))
    assert main.run("run", ["--estimate"], place) == 64
    assert capsys.readouterr().err == "run: error: site file, tolerances\n"


def test_an_estimate_that_was_stopped_shows_its_part_and_no_failures(dry_run, capsys):
    aborted = {"result": "abort", "fail_reason": "aborted due to KeyboardInterrupt"}
    place = dry_run(case(variant="bare"), case(variant="generic", **aborted))
    assert run.session(["--estimate"], place) == 2
    printed = capsys.readouterr().out
    assert "KeyboardInterrupt" not in printed and "1 job(s): " in printed
    assert printed.splitlines()[-1].endswith("error: stopped after 1 of 2 cases: the totals are partial")


def test_the_named_system_is_taken_and_reframes_own_where_nothing_is_named(site_file, monkeypatch):
    monkeypatch.delenv("RFM_CONFIG_FILES", raising=False)
    monkeypatch.setenv("RFM_STAGE_DIR", str(site_file.parent / "own"))
    place = preconditions.require(["--system=volta", "-C", str(site_file)], Workplace())
    assert place.stage == site_file.parent / "own"
    # Named on purpose.
    preconditions.require(["--system=generic", "-C", str(site_file)], Workplace())


def test_a_login_node_is_not_measured_unless_the_person_says_so(refusal, monkeypatch, tmp_path):
    submitter = "qsub"
    monkeypatch.setattr(preconditions, "SUBMITTERS", (submitter,))
    write_program(tmp_path / submitter, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert refusal() == (
        f"{submitter} is here, and no site file says which nodes to measure: write one with containercheck site, or "
        "measure this machine all the same with --here"
    )
    # Who asks, or goes on with what was measured here, is not refused.
    preconditions.require([], Workplace(), anywhere=True)
    _, here, _ = parsers.parsed("run", ["--here"])
    preconditions.require(here, Workplace())


@pytest.mark.parametrize("command", ["run", "nightly", "acceptance"])
def test_each_command_that_measures_asks_for_a_site_file(command, tmp_path):
    write_program(tmp_path / "sbatch", "exit 1")
    words = [command, *(["sh", "bash"] if command == "acceptance" else [])]
    done = run_command(*words, cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    (said,) = done.stderr.splitlines()
    assert (done.returncode, "error" in done.stdout) == (64, False)
    assert "error: sbatch is here, and no site file says which nodes to measure" in said
    assert not (tmp_path / "reports").exists()


# Directories


def test_a_session_in_a_wrong_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    said = r"cannot write into \S+/file/stage: Not a directory; name other directories"
    with pytest.raises(UsageError, match=said), preconditions.held([tmp_path / "file" / "stage"]):
        pass
    with preconditions.held([tmp_path / "new" / "stage"]):
        assert (tmp_path / "new" / "stage").is_dir()


# Python, runtime, MPI, space, network


def test_an_old_python_is_said_before_a_file_is_compiled(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 19))
    with pytest.raises(SystemExit, match=r"^containercheck: Python 3\.9 is too old, 3\.10 or newer is needed: "):
        containercheck.require_python()
    with pytest.raises(SystemExit, match="is too old"):
        _ = containercheck.Metric


class Log(cache.Entry):
    """A build with a log."""

    folder = "images"

    def __init__(self, directory, text):
        """Write the log."""
        super().__init__("debian", directory, "debian.sif")
        self.log.write_text(text)


@pytest.mark.parametrize(
    "line",
    [
        "Err:1 http://deb.debian.org/debian bookworm InRelease  Could not connect to 127.0.0.1:9 (127.0.0.1)",
        "Temporary failure resolving 'deb.debian.org'",
        "WARNING: Retrying after connection broken by 'NewConnectionError(...)': /simple/db12/",
    ],
)
def test_no_network(tmp_path, line):
    said = Log(tmp_path, f"I: begins\n{line}\nFATAL:   exit status 1\n")._failure()
    assert said.startswith(f"no network while building debian ({line}): set http_proxy and https_proxy, or a mirror ")


class Failing(cache.Entry):
    """A build that fails."""

    kind = folder = "images"
    attempts = 0

    def build(self, work):
        """Fail."""
        Failing.attempts += 1
        raise cache.CacheError("gcc: internal compiler error")


def test_a_long_build_that_failed_is_begun_once_in_a_session(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    begun = []
    for longest, session in ((300, "first"), (300, "first"), (0, "first"), (0, "first"), (0, "first"), (0, "second")):
        monkeypatch.setattr(cache, "LONG", longest)
        monkeypatch.setenv("CONTAINERCHECK_SESSION", session)
        with pytest.raises(cache.CacheError, match="gcc: internal compiler error"):
            Failing("code", tmp_path / "images", "code.sif").ensure()
        begun.append(Failing.attempts)
    # A short one again, such as a download from a server that is back.
    assert begun == [1, 2, 3, 3, 3, 4]
