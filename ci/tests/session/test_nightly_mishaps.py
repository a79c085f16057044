"""What may go wrong around a night: nothing is lost that was written, and what was not is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conftest import start_made
from containercheck.command import nightly
from containercheck.history.nights import nights
from made_nights import DAY, NOON, raw, row, session
from places import left, lines, night_place, steady, summary  # noqa: F401

#: A night, as its command runs it, in which a function of the library has a mistake.
FAULTY = """
import functools, sys
from pathlib import Path
from containercheck.command import main
from containercheck.session import reframe_process
from {place} import {module}
def broken(*words, **facts):
    raise KeyError("planted")
{module}.{name} = broken
place = functools.partial(reframe_process.Workplace, Path({{directory!r}}), config=Path({{config!r}}))
reframe_process.Workplace = place
sys.argv.insert(1, "nightly")
main.main()
"""


@pytest.fixture
def place(night_place):
    return night_place


@pytest.mark.parametrize(
    ("where", "module", "name"),
    [("containercheck.report.page", "contents", "write"), ("containercheck.history", "change_points", "standing")],
)
def test_a_fault_of_ours_costs_no_results_and_is_no_regression(place, where, module, name):
    lines(place, "Steady", steady(2))
    left(place).mkdir(parents=True)
    (left(place) / "report.html").write_text("of the night before")
    process = start_made(FAULTY.format(place=where, module=module, name=name), place, "-n", "Steady")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 70, output
    assert "in broken" in output
    *_, error, said = output.splitlines()
    assert (error, said.partition(":")[0]) == ("KeyError: 'planted'", "nightly")
    assert (summary(place)["status"], summary(place)["ran"], summary(place)["failed"]) == (70, 1, {})
    assert "Steady" in (left(place) / "junit.xml").read_text()
    assert not (left(place) / "report.html").exists()


def test_what_another_night_stores_meanwhile_comes_after_this_one(tmp_path, monkeypatch):
    """Of two checkouts with one database, say."""
    stored = [
        session(raw(row()), nightly=name, began=NOON + number * DAY)
        for number, name in enumerate(("before", "this", "meanwhile"))
    ]

    path = tmp_path / "results.db"
    monkeypatch.setattr(nightly, "read_nights", lambda path, problems, whole: nights(stored, whole))
    result = nightly.Result("this")
    nightly.judge(result, SimpleNamespace(cases=[]), path)
    assert result.problems == []
    assert [night.name for night in result.nights] == ["before", "this"]
    assert [len(of_metric.points) for of_metric in result.series] == [2, 2]
    result = nightly.Result("of which nothing was stored")
    nightly.judge(result, SimpleNamespace(cases=[]), path)
    assert result.problems == [f"the results of this night are not in the database {path} (see above)"]
    assert [night.name for night in result.nights] == ["before", "this", "meanwhile", result.name]
