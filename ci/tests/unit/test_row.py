"""The row of the results: its stored form, earlier forms of it, and those that are refused."""

from __future__ import annotations

import json
from dataclasses import fields

import made
import pytest
from containercheck.results import database
from containercheck.results.cases import ReportError, load
from containercheck.results.row import SCHEMA, VERSION, Row, RowError, rows_of

#: As a session of before stored them: without a version, and with a value for everything.
BARE = {"metric": "rate", "unit": "x", "better": "higher", "baseline": 1.0, "baseline_label": "bare"}
COMPARED = made.row()


@pytest.mark.parametrize(
    "stored", [made.row(), made.opened("noisy", low=None), made.row(accepted=[None, None]), made.alone()]
)
def test_a_stored_row_is_read_as_it_was(stored):
    row = Row.from_json(stored)
    again = json.loads(json.dumps(row.to_json()))
    assert again[VERSION] == SCHEMA
    assert Row.from_json(again) == row


def test_a_value_by_itself_is_stored_without_the_fields_of_a_comparison():
    own = {name: value for name, value in BARE.items() if name != "baseline_label"}
    assert Row.from_json(BARE).to_json() == {VERSION: SCHEMA, **own}
    assert {"rounds", "expected", "round_seconds"} < Row.from_json(COMPARED).to_json().keys()


def test_rows_without_a_version_are_read_as_they_were_meant():
    row = Row.from_json({**COMPARED, "a_field_of_yesterday": 1})
    assert {field.name: getattr(row, field.name) for field in fields(Row) if field.name in COMPARED} == {
        **COMPARED,
        "accepted": (None, 10.0),
    }
    # The first ones had less.
    first = Row.from_json({"metric": "rate", "unit": "x", "baseline": 1.0, "overhead": 2.0, "verdict": "inconclusive"})
    defaults = (first.baseline_label, first.subject_label, first.overhead_unit, first.accepted)
    assert defaults == ("bare", "", "%", (None, None))
    assert first.is_comparison and first.is_judged and not Row.from_json(BARE).is_comparison


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ({"unit": "x"}, "a row of its results has no metric: {'unit': 'x'}"),
        ("rate", "a row of its results has no metric: rate"),
        ({"metric": "rate", VERSION: SCHEMA + 1}, f"version {SCHEMA + 1}, and this library reads those up to {SCHEMA}"),
        ({"metric": "rate", VERSION: "next"}, "schema version next, and this library reads"),
    ],
)
def test_what_is_no_row_or_of_a_later_version_is_refused(stored, why, tmp_path, capsys):
    with pytest.raises(RowError) as error:
        rows_of({"results": [stored]})
    assert why in str(error.value)
    # A report is refused as a whole, in one line that names it.
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"runs": [{"testcases": [{**made.case(), "results": [stored]}]}]}))
    with pytest.raises(ReportError) as refused:
        load(path)
    assert f"cannot read ReFrame's report {path}: " in str(refused.value) and why in str(refused.value)
    # Of a database only these sessions are left out.
    later = made.session(1, [{**made.case(), "results": [stored]}])
    sessions = [*database.read(made.store(tmp_path / "results.db", [made.session(0, [made.case()]), later]))]
    assert (len(sessions), why in capsys.readouterr().err) == (1, True)
