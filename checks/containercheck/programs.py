"""The commands that call the library's own programs, in the build step and in the job (see ``__main__.py``)."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from containercheck.sites import Site

_ROOM = Path(__file__).resolve().parent


def in_build(program: str, *words: object) -> str:
    """Return the command that runs a program of the build step, with ReFrame's own Python."""
    return shlex.join([sys.executable, str(_ROOM), program, *map(str, words)])


def in_job(site: Site, program: str, *words: object) -> str:
    """Return the command that runs a program in the job: with this Python where jobs run here, else the nodes' own."""
    return shlex.join([sys.executable if site.is_here else "python3", str(_ROOM), program, *map(str, words)])
