"""Programs against themselves in real sessions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import noise
import pytest
from conftest import REPOSITORY


def test_the_files_of_all_checks_load(tmp_path):
    names = noise.applications()
    noise.write_checks(tmp_path / "checks", names)
    command = noise.session_command(tmp_path / "checks", "--list-detailed")
    result = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout
    assert "WARNING" not in result.stdout
    assert set(re.findall(r"^- (\w+)", result.stdout, re.MULTILINE)) == set(names)
    assert set(re.findall(r"%variant=(\w+)", result.stdout)) == {"bare"}


# It looks whether anything is left in the stage directory.
@pytest.mark.xdist_group("noise")
def test_the_noise_of_ping_pong_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["noise.py", "--rounds=2", "PingPong"])
    before = set(Path(REPOSITORY, "stage").glob("itself-*"))
    with pytest.raises(SystemExit) as end:
        noise.main()
    output = capsys.readouterr().out
    assert not end.value.code, output
    assert re.search(r"^PingPong on \S+: \d+ rounds\nmetric +accepted +spread +verdict", output, re.MULTILINE), output
    assert set(Path(REPOSITORY, "stage").glob("itself-*")) <= before
