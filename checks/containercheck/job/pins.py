"""Read for which machines requirements are pinned: not every project has wheels for every architecture.

Where requirements are not for every machine, a comment in them says for which they are:

    # only for: x86_64; Python 3.11, 3.12

Standard library only, Python 3.6 or newer.
"""

import re
from pathlib import Path
from typing import List, Optional, Tuple


def limits_of(requirements: str) -> Tuple[List[str], List[str]]:
    """Return the architectures and the versions of Python that requirements are pinned for; empty lists for all."""
    limits = re.search(r"^# only for: ([^;\n]*)(?:; Python (.*))?$", requirements, re.MULTILINE)
    if not limits:
        return [], []
    architectures, versions = (re.findall(r"[\w.]+", part or "") for part in limits.groups())
    return architectures, versions


def not_for(name: str, requirements: Path, architecture: str) -> Optional[str]:
    """Return why requirements cannot be used on an architecture; None where they can.

    :param name: of the software, for the message.
    :param requirements: file with the requirements.
    :raises OSError: the file cannot be read.
    """
    pinned, _ = limits_of(requirements.read_text(encoding="utf-8"))
    if not pinned or architecture in pinned:
        return None
    return (
        f"{name} is pinned for {', '.join(pinned)}, and the partition is {architecture}: "
        f"pin it for that too, in {requirements}"
    )
