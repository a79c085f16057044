"""What the node of a job is: what may have changed when bare moved (standard library only, Python 3.6 or newer)."""

import os
import re
from pathlib import Path
from typing import Dict

#: Where Linux tells it.
CPUINFO, RELEASE = Path("/proc/cpuinfo"), Path("/etc/os-release")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
#: How the processor is called: x86; Arm does not tell but by its part; POWER.
PROCESSOR = re.compile(r"^(?:model name|CPU part|cpu)\s*: *(.+)$", re.MULTILINE)
SYSTEM = re.compile(r"^PRETTY_NAME=\"?([^\"\n]+)", re.MULTILINE)


def facts() -> Dict[str, str]:
    """Return kernel, processor, system and frequency governor; what the node does not tell is left out."""
    found = {"kernel": os.uname().release}
    for name, path, pattern in (("processor", CPUINFO, PROCESSOR), ("system", RELEASE, SYSTEM)):
        told = pattern.search(_text(path))
        if told:
            found[name] = told.group(1).strip()
    if _text(GOVERNOR):
        found["governor"] = _text(GOVERNOR).strip()
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
