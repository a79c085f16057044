"""Find what a run leaves in the node's shared memory (standard library only, Python 3.6 or newer).

MPI libraries keep their segments in /dev/shm. Those of a run that was killed stay there until somebody removes them:
they take memory of the node, and a later run that meets one of the same name may fail.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Any, Dict, List, Set

from containercheck.node.job import processes

#: Where shared memory lies, as files; see shm_overview(7).
PLACE = "/dev/shm"
#: Most files that are named.
MOST = 20


def files(place: str = PLACE) -> Dict[str, int]:
    """Return the bytes of this user's files in a directory, by name; empty where it cannot be listed."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            # One that goes away meanwhile was not left.
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid():
                    found[entry.name] = facts.st_size
    return found


def in_use(place: str = PLACE) -> Set[str]:
    """Return the names of the files in a directory that processes which may be looked at have mapped or opened."""
    found = set()
    start = place.rstrip("/") + "/"
    for process in filter(str.isdigit, os.listdir("/proc")):
        paths: List[str] = []
        with contextlib.suppress(OSError):
            paths += [words[5] for words in processes.mapped_files(Path("/proc", process))]
            paths += processes.open_files(Path("/proc", process))
        found |= {path[len(start) :] for path in paths if path.startswith(start)}
    return found


def left(before: Dict[str, int], place: str = PLACE) -> Dict[str, Any]:
    """Return ``count``, ``bytes`` and the first ``names`` of the files that were not there before; empty for none.

    One that a living process still has is somebody else's: the run's own have ended.
    """
    new = {name: size for name, size in files(place).items() if name not in before}
    for name in in_use(place) if new else ():
        new.pop(name, None)
    return {"count": len(new), "bytes": sum(new.values()), "names": sorted(new)[:MOST]} if new else {}
