"""Stand-ins for programs of Slurm's."""

from __future__ import annotations

import pytest
from conftest import write_program


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    """Have sinfo print this, and nothing for other options than ours."""

    def prepare(text, *options):
        (tmp_path / "told").write_text(text)
        wanted = " ".join(["--all --noheader --Node --format=%P|%a|%N|%T|%E", *options])
        write_program(tmp_path / "sinfo", f'[ "$*" != "{wanted}" ] || cat {tmp_path}/told')
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return prepare
