"""What a session answers, as people see it: the table, what comes first, what a case came to, the exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import made
import pytest
from containercheck.command import run
from containercheck.report import answers, junit, summary, table
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import collect


def cases(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


def of(*rows, **facts):
    (case,) = cases(made.case(rows=rows, **facts))
    return case


SLOW = {"result": "fail", "fail_phase": "performance", "fail_reason": "HPL is 75 % ± 4 % worse than bare"}
#: A session with all that can be said of metrics.
SESSION = (
    made.case("HPCC", "bare", 1, [made.alone("HPL", 34.0)]),
    made.case(
        "HPCC",
        "integrated",
        1,
        [
            made.row("HPL", 88.0, 75.0, verdict="fail", rounds=3, low=71.0, high=79.0),
            made.row("FFT", 12.0, 0.5, rounds=2, low=-1.0, high=2.0),
        ],
        measured=[{"baseline": {"HPL": value, "FFT": 12.0}, "subject": {"HPL": 22.0}} for value in (87.0, 88.0, 90.0)],
        **SLOW,
    ),
    made.case(
        "HPCC",
        "generic",
        1,
        [
            made.opened("noisy", "HPL", bare=88.0, overhead=1.7, low=None, high=12.0, rounds=6),
            made.row("FFT", 12.0, 0.5, rounds=2, low=-1.0, high=2.0),
            made.opened("slower", "STREAM", bare=50.0, overhead=41.26, low=None, high=None, rounds=2, above=2),
        ],
    ),
    made.case("LAMMPS", "generic", 1, [made.opened("faster", overhead=-87.0, low=None, high=-80.0, rounds=3)]),
    made.case(
        "WordCount", "generic", 1, [made.row("seconds", 1.6, 1.0, rounds=7, contradicted=True, low=-3.0, high=4.0)]
    ),
)
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "session.txt"


def test_what_people_read_of_a_session():
    said = "\n".join(table.lines(cases(*SESSION))) + "\n"
    if not GOLDEN.exists():
        GOLDEN.write_text(said)
        pytest.fail(f"{GOLDEN} was not there: look at it, and keep it")
    assert said == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", ""),
        ("p", "pass"),
        ("o", "open"),
        ("ppp", "all 3 pass"),
        ("oo", "all 2 open"),
        ("p" * 13 + "o", "13 of 14 pass, 1 open"),
        ("fpo", "1 of 3 fail, 1 pass, 1 open"),
        ("ff", "all 2 fail"),
        ("fpp", "1 of 3 fail, 2 pass"),
        ("e", ""),
    ],
)
def test_a_case_is_told_by_its_metrics(words, said):
    word = {"p": "pass", "f": "fail", "o": "inconclusive", "e": "emulated"}
    assert open_verdicts.tally(of(*(made.row(str(n), verdict=word[letter]) for n, letter in enumerate(words)))) == said


def test_metrics_that_are_too_slow_alike_are_told_together():
    metrics = {"HPL": 32.7, "DGEMM": 52.8, "FFT": 30.6}
    rows = [made.opened("slower", name, overhead=more, above=2, rounds=2) for name, more in metrics.items()]
    rows.insert(1, made.opened("slower", "Latency", overhead=193.0, above=3, rounds=4, accepted=[None, 5.0]))
    assert answers.questions([of(*rows)]) == [
        "TOO SLOW, not yet certain: Code generic, 1 node(s): HPL +33 %, DGEMM +53 %, FFT +31 %, above 10 % in 2 of 2 "
        "rounds; Latency +190 %, above 5 % in 3 of 4 rounds"
    ]


def test_cases_with_one_metric_or_nothing_open_have_no_line():
    assert answers.lines(cases(*(made.case(rows=rows) for rows in ([made.row()], [made.opened("noisy")], [])))) == []
    assert answers.lines([of(made.row(), made.row("other"))]) == []


def test_the_most_urgent_metrics_come_first():
    rows = [made.opened(kind, kind) for kind in ("noisy", "close", "faster", "slower")]
    rows.insert(0, made.row("older", verdict="inconclusive"))
    assert [row.metric for row in open_verdicts.open_rows(of(*rows))] == [
        "slower",
        "faster",
        "close",
        "noisy",
        "older",
    ]


def test_what_an_earlier_version_judged_is_open_and_no_more():
    case = of(made.row(verdict="inconclusive"))
    assert table.verdict(case.rows[0]) == "open"
    assert selections.questions([case]) == []
    assert "kinds" not in summary.last_line([case])[0]


def test_bare_by_itself_is_told_where_the_rounds_saw_another_machine():
    def said(alone, *values, **facts):
        bare = made.case("Code", "bare", 1, [made.alone("rate", alone)])
        rounds = [{"baseline": {"rate": value}, "subject": {"rate": 1.0}} for value in values]
        container = made.case("Code", "generic", facts.pop("nodes", 1), [made.row()], measured=rounds, **facts)
        found = cases(bare, container)
        return table.in_rounds(found[0], found[0].rows[0], found)

    assert said(34.0, 87.0, 88.0, 90.0) == "one run by itself; 88 ns/day in the containers' rounds"
    assert said(88.0, 87.0, 88.0, 90.0) == said(88.0) == ""
    assert said(34.0, 88.0, nodes=2) == said(34.0, 88.0, partition="other") == ""


@pytest.mark.parametrize(
    ("kind", "status"), [("slower", 2), ("faster", 2), ("close", 0), ("noisy", 0), (None, 0), ("failed", 1)]
)
def test_the_exit_status_tells_what_is_not_certain(kind, status, capsys):
    slow = made.opened("slower", "other")
    rows = {None: [made.row()], "failed": [made.row(verdict="fail"), slow]}.get(kind) or [made.opened(kind)]
    facts = SLOW if kind == "failed" else {}
    assert run.conclude_with_metrics([of(*rows, **facts)], []) == status
    asked = "run: not certain yet, but it is too slow or too fast: Code generic, 1 node(s)\n"
    assert (asked in capsys.readouterr().out) == (status == 2)
    # What is wrong besides counts more.
    assert run.conclude_with_metrics([of(*rows, **facts)], ["stopped by SIGTERM"]) == 1


@pytest.mark.parametrize(("words", "status"), [(["--minutes", "0"], 64), (["--resume", "--estimate"], 64), (["-h"], 0)])
def test_a_wrong_command_line_has_a_status_of_its_own(words, status):
    done = subprocess.run([sys.executable, "-m", "containercheck", "run", *words], capture_output=True)
    assert done.returncode == status


def test_junit_tells_a_case_by_its_metrics(tmp_path):
    junit.write(tmp_path / "junit.xml", cases(*SESSION), [], [])
    text = (tmp_path / "junit.xml").read_text()
    tally = "<system-out>1 of 3 pass, 2 open\nSTREAM: too slow, not yet certain\nHPL: at most 12 % worse; a minute"
    assert tally in text
    assert "<system-out>1 of 2 fail, 1 pass</system-out>" in text
    assert "<system-out>pass</system-out>" in text
