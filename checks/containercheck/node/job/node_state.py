"""Read the facts of a node that may explain a change of bare figures (standard library only, Python 3.6 or newer)."""

import os
import re
from pathlib import Path
from typing import Dict

from containercheck.node import architectures

#: Files of Linux and of the distribution that have them.
CPUINFO, RELEASE = Path("/proc/cpuinfo"), Path("/etc/os-release")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SYSTEM = re.compile(r"^PRETTY_NAME=\"?([^\"\n]+)", re.MULTILINE)


def facts() -> Dict[str, str]:
    """Return kernel, processor, system and frequency governor, as far as they can be read."""
    known = {"kernel": os.uname().release}
    processor, system = architectures.processor(_text(CPUINFO)), SYSTEM.search(_text(RELEASE))
    if processor:
        known["processor"] = processor
    if system:
        known["system"] = system.group(1).strip()
    if _text(GOVERNOR):
        known["governor"] = _text(GOVERNOR).strip()
    return known


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
