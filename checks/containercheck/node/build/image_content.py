"""The size of what an image holds: the bytes of its files, beside which an image file is smaller, as it is compressed.

It is counted once, when an image is built, pulled or converted, and stands in the record of its entry in the cache.
Standard library only, Python 3.6 or newer.
"""

import subprocess
import tarfile
import threading
from pathlib import Path
from typing import IO, Any, Dict, List

from containercheck.node import container_runtimes, contract
from containercheck.node.job import runtime_start

#: Seconds that reading an image may take; then its size stays unknown.
PATIENCE = 600.0
#: Bytes that are read at a time.
_BLOCK = 1 << 20


def inside(command: str) -> List[str]:
    """Return the words that run a program in a container, up to the image.

    :param command: of a runtime that runs image files.
    """
    runtime, _ = runtime_start.identify(command)
    return [command, "exec", *runtime_start.options(runtime, command, 0)]


def archiving(command: str, image: Path) -> List[str]:
    """Return the command that writes the files of an image to its output, as an archive, and nothing of the host.

    :param command: of a runtime that runs image files.
    """
    contain = runtime_start.identify(command)[0].contain
    return [*inside(command), *filter(None, [contain]), "--no-home", str(image), "sh", "-c", container_runtimes.ARCHIVE]


def of_archive(stream: IO[bytes]) -> int:
    """Return the bytes of all files in an archive; a file with several names counts once.

    :param stream: the archive, which is read once from its beginning.
    :raises tarfile.TarError: it is none.
    :raises OSError: it cannot be read.
    """
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
        return sum(member.size for member in archive if member.isreg())


def of_image(command: str, image: Path) -> Dict[str, Any]:
    """Return the bytes of an image file's files as a part of its record; nothing where no container of it starts.

    :param command: of a runtime that runs it.
    """
    words = archiving(command, image)
    pipes: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        process = subprocess.Popen(words, **pipes)
    except OSError:
        return {}
    limit = threading.Timer(PATIENCE, process.kill)
    limit.start()
    try:
        size = of_archive(process.stdout) if process.stdout else 0
    except (tarfile.TarError, OSError):
        size = 0
    finally:
        # What is left of the archive, its padding, is read: else tar fails.
        process.communicate()
        limit.cancel()
    return {contract.CONTENT_BYTES: size} if size and process.returncode == 0 else {}


def known(record: Dict[str, Any]) -> Dict[str, Any]:
    """Return the bytes of an image's files from its record; nothing where an older library made that."""
    return {contract.CONTENT_BYTES: record[contract.CONTENT_BYTES]} if contract.CONTENT_BYTES in record else {}
