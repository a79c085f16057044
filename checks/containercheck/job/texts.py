"""Make texts from outside safe to publish, put numbers and sizes into words, and read lists of processors.

A text is safe if it is printable, short, and without passwords. Output of programs, names of processes and addresses go
through :func:`sanitized` or :func:`printable` before they enter a message, a record or a report. The reason: terminals
obey escape sequences, and reports are published.

Standard library only, Python 3.6 or newer.
"""

import configparser
import errno
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, List, Optional, Set

#: Most characters of a line, and most lines of a message.
LINE, LINES = 500, 40
#: Most bytes of a file that is searched as a whole, and of a file of which only the end is read.
READ, TAIL = 64 << 20, 1 << 20
#: Address, with user and password before the host and a query after the path. The ``@`` of a digest follows no user.
_ADDRESS = re.compile(
    r"""([A-Za-z][\w+.-]{0,20}://)(?:[^\s/?#'"]*@(?!sha256:))?([^\s?#'"]*)(\?[^\s#'"]*?(?=@sha256:|[\s#'"]|$))?"""
)


def printable(text: str, longest: int = LINE) -> str:
    """Return a text as one line that moves no cursor, with control characters as escapes and its middle cut out.

    Characters that change the direction of writing or separate lines (Unicode's Cc, Cf, Zl, Zp) are escaped too.

    :param longest: number of characters to keep; the text states how many are left out.

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
    return "".join(each if each.isprintable() else " " if each.isspace() else ascii(each)[1:-1] for each in text)


def without_credentials(text: str) -> str:
    """Return a text without user, password and query in its addresses; signed addresses have their key in the query.

    >>> without_credentials("cannot fetch https://me:secret@host:8080/a/b.tar?signature=1#sha256=0d73: refused")
    'cannot fetch https://host:8080/a/b.tar#sha256=0d73: refused'
    >>> without_credentials("docker://alpine@sha256:0d73 and oras://me@host/a@sha256:0d73")
    'docker://alpine@sha256:0d73 and oras://host/a@sha256:0d73'
    >>> without_credentials("https://host/a.sif?signature=1@sha256:0d73")
    'https://host/a.sif@sha256:0d73'
    """
    return _ADDRESS.sub(r"\1\2", text) if "://" in text else text


def sanitized(text: str, longest: int = LINE) -> str:
    """Return a text that is safe to publish: each line printable and cut, at most :data:`LINES` lines."""
    lines = text.splitlines()
    if len(lines) > LINES:
        half = LINES // 2
        lines = [*lines[:half], f"... ({len(lines) - 2 * half} lines) ...", *lines[-half:]]
    return "\n".join(printable(without_credentials(line), longest) for line in lines)


def read(path: Path, most: int = READ) -> str:
    """Return the text of a file; bytes that are not UTF-8 are replaced.

    :raises OSError: the file cannot be read, is not a regular file, or has more bytes than ``most``.
    """
    with path.open("rb") as stream:
        _require_file(stream.fileno(), path)
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return content.decode(errors="replace")


def utf8(path: Path) -> str:
    """Return the text of a file that a person writes.

    :raises OSError: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"byte {error.start + 1} is not UTF-8", str(path)) from None


def table(path: Path) -> configparser.RawConfigParser:
    """Return the sections of a data file of the library, which has lines such as ``name = value``."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",))
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def small(path: Path) -> str:
    """Return the content of a small file, without blanks around it; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def tail(path: Path, most: int = TAIL) -> str:
    """Return the text at the end of a file, from the beginning of a line if it has lines.

    :param most: bytes that are read.
    :raises OSError: the file cannot be read, or is not a regular file.
    """
    with path.open("rb") as stream:
        size = _require_file(stream.fileno(), path)
        stream.seek(max(0, size - most))
        content = stream.read(most)
    if size > most:
        content = content.partition(b"\n")[2] or content
    return content.decode(errors="replace")


def ends(path: Path, head: int = TAIL, most: int = TAIL) -> str:
    """Return the text at the beginning and at the end of a file, in whole lines if it has lines.

    :param head: bytes that are read at the beginning.
    :param most: bytes that are read at the end.
    :raises OSError: the file cannot be read, or is not a regular file.
    """
    with path.open("rb") as stream:
        size = _require_file(stream.fileno(), path)
        if size <= head + most:
            return stream.read(head + most).decode(errors="replace")
        content = stream.read(head)
    begin = content.rpartition(b"\n")[0] or content
    return begin.decode(errors="replace") + "\n" + tail(path, most)


def write(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file in place of any file there; no reader sees a part of it.

    :param mode: permissions of the file, before the umask.
    :raises OSError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(str(temporary), flags, mode), "w", errors="surrogateescape") as stream:
        stream.write(text)
    temporary.replace(path)


def _require_file(descriptor: int, path: Path) -> int:
    """Return the size of an open file.

    :raises OSError: it is not a regular file, and may have no end.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return status.st_size


def first(lines: List[str], most: int) -> str:
    """Return the first lines, safe to publish, and the number of the others."""
    more = f"\n({len(lines) - most} more)" if len(lines) > most else ""
    return sanitized("\n".join(lines[:most])) + more


def cleaned(value: Any) -> Any:
    """Return a value of JSON with all its texts safe to publish."""
    if isinstance(value, str):
        return sanitized(value)
    if isinstance(value, dict):
        return {sanitized(name): cleaned(item) for name, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, (list, tuple)) else value


# Numbers.


def number(value: Optional[float], digits: int = 4, sign: str = "") -> str:
    """Return a number with these significant digits and no exponent; a question mark for None and NaN."""
    if value is None or math.isnan(value):
        return "?"
    if math.isinf(value):
        return "-∞" if value < 0 else f"{sign}∞"
    # The rounding error of an equal pair's difference is 0; adding 0 removes the sign of -0.
    value = 0.0 if abs(value) < 1e-12 else value + 0.0
    places = 0 if value == 0 else digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):{sign}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(count: float) -> str:
    """Return a number of bytes in words.

    >>> [size(count) for count in (8 << 20, 11 << 30, 512)]
    ['8 MiB', '11 GiB', '512 B']
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor, 3)} {unit}"
    return f"{count:.0f} B"


def cores_of(text: str) -> Set[int]:
    """Return the processors in one of Linux's lists.

    >>> sorted(cores_of("0-2,8"))
    [0, 1, 2, 8]
    """
    processors: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        processors.update(range(int(first), int(last or first) + 1))
    return processors


class NewLines:
    """Read the lines of a file that is being written; each is read once.

    :param path: the file; it need not exist yet.
    :param offset: bytes that are left out.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Begin after these bytes."""
        self._path, self._offset = path, offset

    def read(self) -> List[bytes]:
        """Return the lines that were completed since the last call, without their ends."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                complete, end, _ = stream.read().rpartition(b"\n")
        except OSError:
            return []
        self._offset += len(complete + end)
        return complete.split(b"\n") if end else []
