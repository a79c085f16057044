"""What an application file declares: one that would compare nothing is an error when it loads."""

from __future__ import annotations

import pytest
from conftest import BARE, GENERIC, evaluation_of, facts_of, record_of, run_of
from containercheck import Answer, Metric
from containercheck.job.verdict.comparison import JobOutcome
from containercheck.sides.sides import Program, Side


@pytest.mark.parametrize(
    ("answers", "compared"),
    [
        ([], False),
        ([Answer("sum", r"^sum (\d+)")], True),
        # Of one side only: there is nothing to compare it with.
        ([Answer("sum", r"^sum (\d+)", side="subject")], False),
    ],
)
def test_a_row_says_that_answers_are_not_compared(tmp_path, answers, compared):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out").write_text("rate 1\nsum 2\n")
        (tmp_path / name / "err").write_text("")
    metrics = [Metric("rate", r"^rate (\S+)", "x")]
    facts = facts_of(metrics, answers)
    evaluation = evaluation_of(record_of(run_of("baseline", "a"), run_of("subject", "b")), facts, tmp_path)
    program = Program("true")
    sides = [
        Side(side["name"], side["label"], program, compared_with=side["compared_with"]) for side in (BARE, GENERIC)
    ]
    (row,) = JobOutcome(metrics, sides, evaluation, (), {}, {}).rows()
    assert row["answers_compared"] is compared
