"""Find what a run leaves in the node's shared memory and in /tmp (standard library only, Python 3.6 or newer).

MPI libraries keep their segments in /dev/shm. Those of a run that was killed stay there until somebody removes them:
they take memory of the node, and a later run that meets one of the same name may fail. Runtimes that
cannot mount an image unpack it at each start, often into /tmp (apptainer#737), and some leave sessions there.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Any, Dict, List, Set

from containercheck.node.job import processes

#: Where shared memory lies, as files; see shm_overview(7).
PLACE = "/dev/shm"
#: Where temporary files lie, of programs and of container runtimes.
TEMPORARY = "/tmp"
#: Most files that are named; and most entries of a directory that are looked at, as each run looks twice.
MOST, ENTRIES = 20, 1000


def entries(place: str = TEMPORARY) -> Dict[str, int]:
    """Return the bytes of this user's files in a directory, and 0 for each of its directories there, by name.

    What lies in these is not looked at. Empty where the directory cannot be listed, or has too many entries.
    """
    found = {}
    with contextlib.suppress(OSError):
        # Looking at each takes longer by far than listing them.
        for entry in os.scandir(place) if len(os.listdir(place)) <= ENTRIES else ():
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(facts.st_mode)
                if facts.st_uid == os.geteuid() and (is_file or stat.S_ISDIR(facts.st_mode)):
                    found[entry.name] = facts.st_size if is_file else 0
    return found


def left_entries(before: Dict[str, int], place: str = TEMPORARY) -> Dict[str, Any]:
    """Return the same as :func:`left` for files and directories of a place; empty where it was not seen before."""
    new = {name: size for name, size in (entries(place) if before else {}).items() if name not in before}
    used = {path.split("/", 1)[0] for path in in_use(place)} if new else set()
    return _counted({name: size for name, size in new.items() if name not in used})


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
    return _counted(new)


def _counted(new: Dict[str, int]) -> Dict[str, Any]:
    return {"count": len(new), "bytes": sum(new.values()), "names": sorted(new)[:MOST]} if new else {}
