"""Write files that others may read at the same time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file in one step: no reader ever sees half of it.

    :raises OSError: it cannot be written; an older file stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
