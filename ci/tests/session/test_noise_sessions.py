"""Programs against themselves in real sessions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import noise
import pytest
import twice
from conftest import REPOSITORY


def test_the_files_of_all_checks_load_with_every_length(tmp_path):
    names = twice.applications()
    twice.write_checks(tmp_path / "checks", names)
    options = [option for check, length in noise.LENGTHS.items() for option in length.options(check, length.short)]
    command = twice.Sessions(tmp_path, None).command("--list-detailed", *options)
    result = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout
    assert "WARNING" not in result.stdout and "not set" not in result.stdout
    found = set(re.findall(r"^- (\w+)", result.stdout, re.MULTILINE))
    assert found == set(names)
    assert set(re.findall(r"%variant=(\w+)", result.stdout)) == {"bare"}
    assert set(re.findall(r"%num_nodes=(\w+)", result.stdout)) == {"1"}


# It looks whether anything is left in the stage directory.
@pytest.mark.xdist_group("noise")
def test_the_noise_of_ping_pong_is_measured_with_runs_of_two_lengths(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["noise.py", "--rounds=2", "PingPong"])
    before = set(Path(REPOSITORY, "stage").glob("itself-*"))
    with pytest.raises(SystemExit) as end:
        noise.main()
    output = capsys.readouterr().out
    assert not end.value.code, output
    assert re.search(r"^PingPong: a start costs \S+ s, .*; 2 and 2 rounds$", output, re.MULTILINE)
    assert set(Path(REPOSITORY, "stage").glob("itself-*")) <= before
