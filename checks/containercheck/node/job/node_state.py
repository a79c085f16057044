"""What the node of a job is: what may have changed when bare moved (standard library only, Python 3.6 or newer)."""

import os
import re
from pathlib import Path
from typing import Dict

from containercheck.node import architectures

#: Where Linux tells it.
CPUINFO, RELEASE = Path("/proc/cpuinfo"), Path("/etc/os-release")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SYSTEM = re.compile(r"^PRETTY_NAME=\"?([^\"\n]+)", re.MULTILINE)


def facts() -> Dict[str, str]:
    """Return kernel, processor, system and frequency governor; what the node does not tell is left out."""
    found = {"kernel": os.uname().release}
    processor, system = architectures.processor(_text(CPUINFO)), SYSTEM.search(_text(RELEASE))
    if processor:
        found["processor"] = processor
    if system:
        found["system"] = system.group(1).strip()
    if _text(GOVERNOR):
        found["governor"] = _text(GOVERNOR).strip()
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
