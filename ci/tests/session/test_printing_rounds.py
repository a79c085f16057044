"""Runs that print too much end the rounds."""

from __future__ import annotations

from containercheck.job import single_run


def test_a_script_that_makes_the_input_is_ended_too(start_rounds, tmp_path):
    (tmp_path / "prepare.sh").write_text("yes 'error: once more' >&2")
    process = start_rounds("true", None, 1, 10, "--prepare=prepare.sh")
    process.communicate(timeout=1800)
    assert process.returncode == 1 and not (tmp_path / "rounds").exists()
    assert single_run.size(path for path in tmp_path.rglob("*") if path.is_file()) < 3 * single_run.KEPT
