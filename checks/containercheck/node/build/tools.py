"""What builds software and may be another version tomorrow: Spack, EasyBuild.

Standard library only, Python 3.6 or newer.
"""

import functools
import subprocess

from containercheck.node.build.cache import CacheError, UnsupportedError


@functools.lru_cache(maxsize=None)
def version_of(tool: str, command: str, name: str) -> str:
    """Return what a tool says of its version.

    :param tool: what it is called; the site's extra of that name, in lower case, is its command.
    :param name: of the software that comes from it.
    :raises UnsupportedError: it is not there, and nobody named it.
    :raises CacheError: it does not run, or is named and not there.
    """
    try:
        process = subprocess.run(
            [command, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        # Any other is what somebody named.
        raise (UnsupportedError if command == "spack" else CacheError)(
            f"no software: {name} comes from {tool}, and there is no {command} ({error.strerror}): name it, or a "
            f"program of the site's: site's extras, {tool.lower()} or software"
        ) from None
    said = process.stdout.decode(errors="replace").strip()
    if process.returncode != 0:
        raise CacheError(f"{command} --version fails: {(said.splitlines() or ['it prints nothing'])[-1]}")
    return said
