"""Whose files a cache may have: one's own, root's, and those of users and groups whom the site trusts.

What another user can write may be another thing the moment after it was looked at, whatever its digest was.

Standard library only, Python 3.6 or newer.
"""

import functools
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Iterable, Optional, Set, Tuple

from containercheck.node import contract, lock_files


class NotTrustedError(OSError):
    """A file is another user's, or can be written by others; the message says which, and whose."""


def trusted() -> Tuple[Set[int], Set[int]]:
    """Return the ids of users and of groups whose files are used: one's own, root's, and the site's.

    These are in the variable ``contract.CACHE_OWNERS``: names or numbers, of groups with an ``@`` before them. A name
    that this machine does not know is nobody's.
    """
    return _trusted(os.geteuid(), os.environ.get(contract.CACHE_OWNERS, ""))


@functools.lru_cache(maxsize=None)
def _trusted(me: int, names: str) -> Tuple[Set[int], Set[int]]:
    users = {me, 0}
    groups: Set[int] = set()
    for name in names.split(","):
        try:
            if name.startswith("@"):
                groups.add(int(name[1:]) if name[1:].isdigit() else grp.getgrnam(name[1:]).gr_gid)
            elif name:
                users.add(int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return users, groups


def problem(path: Path, found: Optional[os.stat_result] = None, shared: bool = False) -> Optional[str]:
    """Return why a file or directory is not to be used; None where it may be. A link is not followed.

    :param found: what ``lstat`` says of it, where that is known.
    :param shared: whether it is a directory that others may put files of their own into, as into /tmp.
    :raises OSError: it is not there.
    """
    found = os.lstat(str(path)) if found is None else found
    users, groups = trusted()
    if found.st_uid not in users:
        return f"{path} belongs to {lock_files.name_of(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        return None
    others = bool(found.st_mode & stat.S_IWOTH)
    group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in groups and not _is_of_one(found, users)
    if (others or group) and not (shared and found.st_mode & stat.S_ISVTX):
        return f"{path} can be written by {'others' if others else 'its group'} (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def require(path: Path, found: Optional[os.stat_result] = None) -> None:
    """Refuse a file or directory of others.

    :raises NotTrustedError: it is another user's, or can be written by others.
    :raises OSError: it is not there.
    """
    why = problem(path, found)
    if why:
        raise NotTrustedError(why)


def require_below(directory: Path, paths: Iterable[Path]) -> None:
    """Refuse paths below a directory, and the directories between, where they are another's or others can write them.

    :raises NotTrustedError: one is; what does not lie there is not looked at.
    :raises OSError: one is not there.
    """
    for path in paths:
        if directory in path.parents:
            for part in (path, *path.parents):
                if part == directory:
                    break
                require(part)


def require_cache(directory: Path) -> None:
    """Refuse a directory in which others can replace what is there.

    :raises NotTrustedError: it is another user's, or others can do that.
    :raises OSError: it is not there.
    """
    why = problem(directory, shared=True)
    if why:
        raise NotTrustedError(why)


def _is_of_one(found: os.stat_result, users: Set[int]) -> bool:
    """Tell whether the group of a file has no members but trusted users: many systems give each user such a group."""
    try:
        group = grp.getgrgid(found.st_gid)
        owner = pwd.getpwuid(found.st_uid)
        members = {pwd.getpwnam(name).pw_uid for name in group.gr_mem}
    except KeyError:
        return False
    # Whose primary group it is, the group does not tell: of one with the user's own name it is nobody else's.
    return group.gr_name == owner.pw_name and owner.pw_gid == found.st_gid and members <= users


def can_remove(path: Path) -> bool:
    """Tell whether one may remove a name from its directory, as far as owner and mode say it."""
    there, me = path.parent.stat(), os.geteuid()
    if me == 0 or not there.st_mode & stat.S_ISVTX or there.st_uid == me:
        return os.access(str(path.parent), os.W_OK | os.X_OK)
    return os.lstat(str(path)).st_uid == me
