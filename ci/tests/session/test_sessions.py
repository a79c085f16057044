"""A session of ci/run: what fails, what it costs, and how it is stopped. With ReFrame, and with checks made here."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3

import pytest
from conftest import alive_below, eventually
from places import PLAIN, place, run, start, table  # noqa: F401


def test_a_failure_is_final(place):
    names = ("Slow", "Wrong")
    status, output = run(place, "-n", "(Slow|Wrong)%|Fine")
    assert status == 1
    assert output.count("[ReFrame Setup]") == 1
    assert all(output.count(f"RUN      ] {name}") == 1 and f"\nFAILED: {name} bare: " in output for name in names)
    assert "2 of 3 checks failed" in table(output)[-1]
    # Nothing is open, and they failed all the same.
    status, output = run(place, "--resume", program=PLAIN)
    assert (status, "RUN      ]" in output) == (1, False), output
    assert output.startswith("run: nothing is open in the last session, with these results\n")
    assert all(f"FAILED: {name} bare: " in output for name in names)


def test_an_unfinished_report_of_an_earlier_session_is_not_read(place):
    place.reports.mkdir()
    place.report.write_text('{"runs": []}')
    place.latest.write_text("half a report")
    status, output = run(place, "-n", "NoSuchCheck")
    assert status == 2
    assert "no check was run" in output
    assert not any(path.exists() for path in (place.report, place.latest))


def test_a_check_that_does_not_load_is_a_failure(place):
    """A file that does not load is in test_nightly.py."""
    text = (place.directory / "checks" / "made.py").read_text().partition("\n\n@rfm.simple_test")[0]
    bad = "@rfm.simple_test\nclass Bad(Base):\n    x = parameter()"
    (place.directory / "checks" / "broken.py").write_text(f"{text}\n\n{bad}\n")
    status, output = run(place, "-n", "Fine")
    assert status == 1
    assert "a check file does not load" in output
    assert table(output)[1].split()[0] == "Fine"
    # It did not run, and what goes on without it is not fine either.
    status, output = run(place, "--resume", program=PLAIN)
    assert (status, "run: error: a check file does not load: " in output) == (1, True), output


def test_failures_of_reframe_itself_are_respected(place):
    # The checks pass, the report is written, and then something goes wrong.
    hidden = place.directory / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "end = lambda: sys.argv[0].endswith('reframe') and (sys.stdout.flush(), os._exit(3))\n"
        "atexit.register(end)\n"
    )
    status, output = run(place, "-n", "Fine", PYTHONPATH=str(hidden))
    assert status == 1, output
    assert table(output)[-1] == "run: error: ReFrame ended with status 3, though no check failed (see above)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "Fine", "--foo"], "unrecognized arguments: --foo: see --help and reframe --help"),
        (["-l"], "--list is another action of ReFrame and runs no check: reframe -c checks/ --list"),
        (["--report-file=elsewhere.json"], "leave out --report-file"),
    ],
)
def test_a_wrong_command_line_is_one_line(place, words, said):
    status, output = run(place, *words)
    assert (status, len(output.splitlines()), said in output) == (64, 1, True), output


#: As config/common.py has it, and names what a site may name otherwise.
COMMON = """site_configuration = {{
    "general": [{{"report_file": "{0}/common.json"}}],
    "storage": [{{"enable": True, "sqlite_db_file": "{0}/common.db"}}],
}}
"""


@pytest.mark.parametrize(
    "named_too", [pytest.param(False, marks=pytest.mark.long), True], ids=["site only", "what is common before it"]
)
def test_reports_and_database_lie_where_the_site_says(place, named_too):
    own = place.directory / "site"
    place.config.write_text(COMMON.format(place.directory))
    settings = place.directory / "settings.py"
    settings.write_text(
        f"site_configuration = {{'general': [{{'report_file': '{own}/last.json'}}],"
        f"'storage': [{{'sqlite_db_file': '{own}/results.db'}}]}}\n"
    )
    files = f"{place.config}:{settings}" if named_too else str(settings)
    status, output = run(place, "-n", "Fine", RFM_CONFIG_FILES=files)
    assert status == 0, output
    names = {path.name for path in own.iterdir()}
    assert names >= {"last.json", "session.log", "results.db"}
    assert not place.reports.exists()
    assert not list(place.directory.glob("common.*"))
    # The environment's word counts before.
    elsewhere = place.directory / "elsewhere" / "report.json"
    status, output = run(place, "-n", "Fine", RFM_CONFIG_FILES=files, RFM_REPORT_FILE=str(elsewhere))
    assert (status, elsewhere.exists()) == (0, True), output
    status, output = run(place, "--resume", RFM_REPORT_FILE=str(elsewhere))
    assert (status, output.startswith("run: nothing is open in the last session")) == (0, True)


def test_a_database_that_is_locked_is_named_and_the_verdicts_are_kept(place):
    database = place.directory / "common.db"
    place.config.write_text(COMMON.format(place.directory).replace('"enable"', '"sqlite_conn_timeout": 0.5, "enable"'))
    with contextlib.closing(sqlite3.connect(database)) as somebody:
        somebody.execute("BEGIN EXCLUSIVE")
        status, output = run(place, "-n", "Fine")
    assert status == 0, output
    metrics, _, line = table(output)[1:]
    assert metrics.split() == ["Fine", "bare", "1", "rate", "1", "x"]
    report = place.directory / "common.json"
    where = f"these results are not in the database {database} (database is locked)"
    assert line == f"run: {where}: they are in {report}"
    assert json.loads(report.read_text())["runs"][0]["testcases"][0]["result"] == "pass"


@pytest.fixture
def stage(place):
    return place.directory / "stage"


@pytest.fixture
def endless(place, stage):
    """Start a session with a job that does not end, and return its process."""

    def begin():
        process = start(place, "-n", "Endless")
        assert eventually(lambda: any("alive" in path.read_text() for path in stage.rglob("rfm_job.out")), of=process)
        assert alive_below(stage)
        return process

    return begin


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_session_that_is_stopped_leaves_nothing_behind(endless, stage, number):
    process = endless()
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"stopped by {number.name}" in output
    assert output.count("RUN      ] Endless") == 1
    assert not alive_below(stage)


def test_another_session_in_the_same_place_is_refused_and_named(place, endless, stage):
    process = endless()
    status, output = run(place, "-n", "Fine")
    (line,) = output.splitlines()
    assert (status, line.partition(" (")[0]) == (64, f"run: error: another session writes into {place.reports}")
    assert f"held by process {process.pid} of " in line
    assert "RFM_PREFIX=DIR" in line
    # The same stage with another report is no better, and a night of its own report is another session too.
    elsewhere = place.directory / "elsewhere"
    status, output = run(place, "-n", "Fine", RFM_REPORT_FILE=str(elsewhere / "report.json"))
    assert (status, f"another session writes into {stage}" in output) == (64, True), output
    # What only asks is not kept out, and one that has places of its own is not either.
    assert run(place, "--estimate", "-n", "Fine")[0] == 0
    own = {"RFM_PREFIX": str(elsewhere), "RFM_REPORT_FILE": str(elsewhere / "report.json")}
    status, output = run(place, "-n", "Fine", **own)
    assert status == 0, output
    # The one that was there first goes on.
    assert alive_below(stage)
    assert "Fine" not in place.log.read_text()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)


def test_an_estimate_runs_nothing(place):
    status, output = run(place, "--estimate", "-n", "Fine|Dear")
    assert status == 0, output
    lines = output.splitlines()
    assert lines[-1] == "2 job(s): about 2.1 node-hours, at most 11"
    assert [line.split()[-2:] for line in lines if line.startswith(("Fine", "Dear"))] == [["0.1", "1"], ["2", "10"]]
    assert not list(place.directory.glob("Fine*")) + list(place.directory.glob("Dear*"))


def test_a_budget_counts_the_time_that_jobs_really_took(place):
    # By their expected time, all would fit.
    status, output = run(place, "--node-hours", "2.5", "-n", "Overruns%|Dear")
    assert status == 0, output
    assert (output.count("RUN      ] Overruns"), output.count("RUN      ] Dear")) == (1, 0)
    assert "run: left out, as only 1.67 node-hours are left: Dear bare, 1 node(s)" in output
    assert "run: 0.833 of 2.5 node-hours were spent" in output
    assert table(output)[1].split()[0] == "Overruns"


def test_a_budget_begins_no_job_beside_another_that_may_use_it_up(place):
    status, output = run(place, "--node-hours", "1", "-n", "Fine|Dear|Good")
    assert status == 0, output
    assert "node-hours are left: Dear bare, 1 node(s)" in output
    # Each job may take an hour, and the last one is limited to the rest.
    (first,), (last,) = (run["testcases"] for run in json.loads(place.report.read_text())["runs"])
    assert [case["name"].split()[0] for case in (first, last)] == ["Fine", "Good"]
    assert first["node_hours"] == 0 < last["node_hours"] < 1
    status, output = run(place, "--node-hours", "0.05", "-n", "Fine|Dear")
    assert (status, "is expected to fit into 0.05 node-hours" in output) == (2, True)
    assert "RUN" not in output


def test_a_signal_is_not_lost_in_a_line_that_is_being_logged(place):
    process = start(place, "-n", "Logs")
    assert eventually((place.directory / "writing").exists, of=process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert "stopped by SIGTERM" in table(output)[-2]


def test_a_session_without_a_terminal_is_stopped_by_what_it_does_not_ignore(endless, stage):
    # As a shell starts what is to go on behind it, and nohup.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    process = endless()
    for number, handler in before.items():
        signal.signal(number, handler)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert "stopped by SIGTERM" in table(output)[-2]
    assert not alive_below(stage)


def test_whoever_reads_no_further_ends_the_session(place, endless, stage):
    process = endless()
    process.stdout.close()
    assert process.wait(timeout=120) != 0
    assert not alive_below(stage)
    # A later session does not take it for complete.
    status, output = run(place, "--resume", program=PLAIN)
    assert (status, "Traceback" in output) == (1, False), output
