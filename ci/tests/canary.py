"""A secret that is planted, and where others than its owner can read it."""

from __future__ import annotations

import os
from pathlib import Path

CANARY = "glcbt-canary"


def readable(directory: Path) -> list[str]:
    """Return the files below a directory with the canary in them that somebody else than their owner can read."""
    found = []
    for place, _, names in os.walk(directory):
        modes = [
            Path(place, *[".."] * up).stat().st_mode for up in range(len(Path(place).relative_to(directory).parts))
        ]
        closed = any(not mode & 0o011 for mode in modes)
        for path in (Path(place, name) for name in names):
            if path.is_file() and CANARY.encode() in path.read_bytes() and not closed:
                found += [str(path)] if path.stat().st_mode & 0o044 else []
    return found
