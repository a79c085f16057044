"""Programs against themselves in real sessions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import itself
import noise
import pytest
import twice
from against_itself import listing
from conftest import REPOSITORY


def test_the_files_of_all_checks_load_with_every_length(tmp_path):
    names = twice.applications()
    twice.write_checks(tmp_path / "checks", names, {"WordCount": itself.MORE["WordCount"].filled_in(10)})
    lengths = noise.LENGTHS.items()
    output = listing(tmp_path, *(option for check, length in lengths for option in length.options(check, length.short)))
    assert "WARNING" not in output and "not set" not in output
    found = set(re.findall(r"^- (\w+)", output, re.MULTILINE))
    assert found == set(names)
    assert set(re.findall(r"%variant=(\w+)", output)) == {"bare"}
    assert set(re.findall(r"%num_nodes=(\w+)", output)) == {"1"}


# Each looks whether it leaves anything in the stage directory.
@pytest.mark.xdist_group("itself")
@pytest.mark.parametrize("percent", [pytest.param(0, marks=pytest.mark.long), 50])
def test_ping_pong_against_itself(percent, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["itself.py", "--times=1", "-S", "rounds=1", "--more", str(percent), "PingPong"])
    before = set(Path(REPOSITORY, "stage").glob("itself-*"))
    with pytest.raises(SystemExit) as end:
        itself.main()
    output = capsys.readouterr().out
    assert end.value.code == 0, output
    # One round is too few for any verdict, so nothing here depends on the machine.
    assert re.search(r"^session 1 of 1: PingPong open \(.*latency_\w+.*\), 1 round, \d+ s$", output, re.MULTILINE)
    assert re.search(
        r"^total: 0 false failures \(must be 0\); 0 of \d comparisons closed \(0 %\)$", output, re.MULTILINE
    )
    assert ("PingPong, 50 % more work, 1 sessions: found in 0, missed in 0, open in 1" in output) == bool(percent)
    assert set(Path(REPOSITORY, "stage").glob("itself-*")) <= before
