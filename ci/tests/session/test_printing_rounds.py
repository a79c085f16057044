"""Runs that print too much end the rounds."""

from __future__ import annotations

import json

from containercheck.job import contract, single_run


def test_the_second_run_that_prints_too_much_ends_the_rounds(start_rounds, tmp_path):
    """With the real limit: the whole runner, which leaves a record that is small."""
    process = start_rounds("yes 'error: cannot open the file'", None, 5, 100)
    said, _ = process.communicate(timeout=1800)
    assert contract.PRINTED_TOO_MUCH in said
    record = json.loads((tmp_path / "rounds.json").read_text())
    assert record["complete"] and len(record["runs"]) == 2
    assert single_run.size(path for path in tmp_path.rglob("*") if path.is_file()) < 5 * single_run.KEPT


def test_a_script_that_makes_the_input_is_ended_too(start_rounds, tmp_path):
    (tmp_path / "prepare.sh").write_text("yes 'error: once more' >&2")
    process = start_rounds("true", None, 1, 10, "--prepare=prepare.sh")
    process.communicate(timeout=1800)
    assert process.returncode == 1 and not (tmp_path / "rounds").exists()
    assert single_run.size(path for path in tmp_path.rglob("*") if path.is_file()) < 3 * single_run.KEPT
