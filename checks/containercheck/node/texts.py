"""Texts of others (programs, runtimes, people) before they are told: printable, short, and without passwords.

Whatever a program, a process's name or an address brings along goes through :func:`told` or :func:`printable` before it
enters a message, a record or a report: terminals obey escape sequences, and reports are published.

Standard library only, Python 3.6 or newer.
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any, List

#: Most characters of a line of somebody else's, and most lines of a message.
LINE, LINES = 500, 40
#: Most bytes that are read of a file in which there is something to look for; and of one whose end tells.
READ, TAIL = 64 << 20, 1 << 20
#: What may stand before the host of an address, and after its path. The ``@`` of a digest is no name's.
_ADDRESS = re.compile(
    r"""([A-Za-z][\w+.-]{0,20}://)(?:[^\s/?#'"]*@(?!sha256:))?([^\s?#'"]*)(\?[^\s#'"]*?(?=@sha256:|[\s#'"]|$))?"""
)


class TooLongError(Exception):
    """There is more of a file than is read; the message says how much, and where."""


def printable(text: str, longest: int = LINE) -> str:
    """Return a text as one line that moves no cursor: control characters as escapes, cut in its middle.

    Also what turns the direction of writing or separates lines (Unicode's Cc, Cf, Zl, Zp) is escaped.

    :param longest: characters that are kept; how many are left out is said.

    >>> print(printable("a\\x1b]0;owned\\x07b\\u202e\\tc"))
    a\\x1b]0;owned\\x07b\\u202e c
    >>> printable("abcdefghij", 4)
    'ab ... (6 characters) ... ij'
    """
    if len(text) > longest:
        half = longest // 2
        left_out = len(text) - 2 * half
        text = f"{text[:half]} ... ({left_out} characters) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else " " if one == "\t" or one.isspace() else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def without_credentials(text: str) -> str:
    """Return a text with no user, password or query in the addresses that it names.

    A query is where signed addresses have their key.

    >>> without_credentials("cannot fetch https://me:secret@host:8080/a/b.tar?signature=1#sha256=0d73: refused")
    'cannot fetch https://host:8080/a/b.tar#sha256=0d73: refused'
    >>> without_credentials("docker://alpine@sha256:0d73 and oras://me@host/a@sha256:0d73")
    'docker://alpine@sha256:0d73 and oras://host/a@sha256:0d73'
    >>> without_credentials("https://host/a.sif?signature=1@sha256:0d73")
    'https://host/a.sif@sha256:0d73'
    """
    return _ADDRESS.sub(r"\1\2", text) if "://" in text else text


def sanitized(text: str, longest: int = LINE) -> str:
    """Return a text of several lines as it may be told: each line printable and cut, and no more than so many."""
    lines = text.splitlines()
    if len(lines) > LINES:
        half = LINES // 2
        lines = [*lines[:half], f"... ({len(lines) - 2 * half} lines) ...", *lines[-half:]]
    return "\n".join(printable(without_credentials(line), longest) for line in lines)


def read(path: Path, most: int = READ) -> str:
    """Return the text of a file; what is no UTF-8 is replaced.

    :raises TooLongError: it has more bytes than ``most``.
    :raises OSError: it cannot be read, or is no regular file.
    """
    with path.open("rb") as stream:
        _require_file(stream.fileno(), path)
        content = stream.read(most + 1)
    if len(content) > most:
        raise TooLongError(f"{path} has {path.stat().st_size >> 20} MiB; no more than {most >> 20} MiB are read")
    return content.decode(errors="replace")


def tail(path: Path, most: int = TAIL) -> str:
    """Return the text at the end of a file, from the beginning of a line on where there is one.

    :param most: bytes that are read.
    :raises OSError: it cannot be read, or is no regular file.
    """
    with path.open("rb") as stream:
        size = _require_file(stream.fileno(), path)
        stream.seek(max(0, size - most))
        content = stream.read(most)
    if size > most:
        content = content.partition(b"\n")[2] or content
    return content.decode(errors="replace")


def ends(path: Path, head: int = TAIL, most: int = TAIL) -> str:
    """Return the text at the beginning and at the end of a file, whole lines where there are some.

    :param head: bytes that are read at the beginning.
    :param most: bytes that are read at the end.
    :raises OSError: it cannot be read, or is no regular file.
    """
    with path.open("rb") as stream:
        size = _require_file(stream.fileno(), path)
        if size <= head + most:
            return stream.read(head + most).decode(errors="replace")
        content = stream.read(head)
    begin = content.rpartition(b"\n")[0] or content
    return begin.decode(errors="replace") + "\n" + tail(path, most)


def _require_file(descriptor: int, path: Path) -> int:
    """Return the size of an open file.

    :raises OSError: it is something else, which may have no end.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return found.st_size


def first(lines: List[str], most: int) -> str:
    """Return the first lines of several as they may be told, and how many there are more."""
    more = f"\n({len(lines) - most} more)" if len(lines) > most else ""
    return sanitized("\n".join(lines[:most])) + more


def cleaned(value: Any) -> Any:
    """Return a value of JSON with all its texts as they may be told."""
    if isinstance(value, str):
        return sanitized(value)
    if isinstance(value, dict):
        return {sanitized(name): cleaned(one) for name, one in value.items()}
    return [cleaned(one) for one in value] if isinstance(value, (list, tuple)) else value
