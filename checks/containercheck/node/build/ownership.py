"""Owners that files of a cache may have: this user, root, and the users and groups that the site trusts.

A file that another user can write may change at any moment after its digest was checked.

Standard library only, Python 3.6 or newer.
"""

import functools
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Iterable, Optional, Set, Tuple

from containercheck.node import contract, locks


class NotTrustedError(OSError):
    """A file belongs to another user, or others can write it; the message says which file, and who."""


def trusted() -> Tuple[Set[int], Set[int]]:
    """Return the ids of the trusted users and groups: this user, root, and those that the site trusts.

    The variable ``contract.CACHE_OWNERS`` has the latter: names or numbers, with an ``@`` before those of groups. Names
    that this machine does not know are left out.
    """
    return _trusted(os.geteuid(), os.environ.get(contract.CACHE_OWNERS, ""))


@functools.lru_cache(maxsize=None)
def _trusted(user: int, names: str) -> Tuple[Set[int], Set[int]]:
    users: Set[int] = {user, 0}
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


def problem(path: Path, status: Optional[os.stat_result] = None, shared: bool = False) -> Optional[str]:
    """Return why a file or directory must not be used; None where it may be used. A link is not followed.

    :param status: result of ``lstat``, if the caller has it.
    :param shared: whether others may put files of their own into the directory, as into /tmp.
    :raises OSError: the path does not exist.
    """
    status = os.lstat(str(path)) if status is None else status
    users, groups = trusted()
    if status.st_uid not in users:
        return f"{path} belongs to {locks.user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return None
    by_others = bool(status.st_mode & stat.S_IWOTH)
    by_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid not in groups
    by_group = by_group and not _is_private_group(status, users)
    if (by_others or by_group) and not (shared and status.st_mode & stat.S_ISVTX):
        writer = "others" if by_others else "its group"
        return f"{path} can be written by {writer} (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def require(path: Path, status: Optional[os.stat_result] = None) -> None:
    """Refuse a file or directory that another user owns or can write.

    :param status: result of ``lstat``, if the caller has it.
    :raises NotTrustedError: another user owns it, or can write it.
    :raises OSError: the path does not exist.
    """
    why = problem(path, status)
    if why:
        raise NotTrustedError(why)


def require_below(directory: Path, paths: Iterable[Path]) -> None:
    """Refuse paths below a directory if another user owns or can write them or the directories between.

    Paths outside of the directory are not checked.

    :raises NotTrustedError: another user owns or can write one of them.
    :raises OSError: a path does not exist.
    """
    for path in paths:
        if directory in path.parents:
            for part in (path, *path.parents):
                if part == directory:
                    break
                require(part)


def require_cache(directory: Path) -> None:
    """Refuse a directory in which another user can replace files.

    :raises NotTrustedError: another user owns it, or can write it.
    :raises OSError: the directory does not exist.
    """
    why = problem(directory, shared=True)
    if why:
        raise NotTrustedError(why)


def _is_private_group(status: os.stat_result, users: Set[int]) -> bool:
    """Tell whether the group of a file has only trusted users as members: many systems give each user such a group."""
    try:
        group = grp.getgrgid(status.st_gid)
        owner = pwd.getpwuid(status.st_uid)
        members = {pwd.getpwnam(name).pw_uid for name in group.gr_mem}
    except KeyError:
        return False
    # A group does not list the users whose primary group it is: one with the name of a user is taken for that user's.
    return group.gr_name == owner.pw_name and owner.pw_gid == status.st_gid and members <= users


def can_remove(path: Path) -> bool:
    """Tell whether this user may remove a name from its directory, by owner and mode."""
    directory, user = path.parent.stat(), os.geteuid()
    if user == 0 or not directory.st_mode & stat.S_ISVTX or directory.st_uid == user:
        return os.access(str(path.parent), os.W_OK | os.X_OK)
    return os.lstat(str(path)).st_uid == user
