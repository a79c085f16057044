"""Checks of programs against themselves, as the benchmarks write them."""

from __future__ import annotations

import subprocess

import twice


def listing(directory, *arguments, check=""):
    """Return ReFrame's listing of checks that a benchmark wrote into a directory."""
    sessions = twice.Sessions(directory, None)
    command = sessions.command("--list-detailed", *arguments, check=check)
    result = subprocess.run(command, cwd=directory, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout
    return result.stdout
