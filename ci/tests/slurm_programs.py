"""Stand-ins for programs of Slurm's."""

from __future__ import annotations

import pytest


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    """Have sinfo print this, and nothing for other options than ours."""

    def prepare(text, *options):
        (tmp_path / "told").write_text(text)
        wanted = " ".join(["--all --noheader --Node --format=%P|%a|%N|%T|%E", *options])
        (tmp_path / "sinfo").write_text(f'#!/bin/sh\n[ "$*" != "{wanted}" ] || cat {tmp_path}/told\n')
        (tmp_path / "sinfo").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return prepare
