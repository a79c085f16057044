"""The version of a tool that installs software: Spack or EasyBuild.

Standard library only, Python 3.6 or newer.
"""

import functools
import subprocess

from containercheck.node.build.cache import CacheError, UnsupportedError


@functools.lru_cache(maxsize=None)
def version_of(tool: str, command: str, name: str) -> str:
    """Return a tool's output about its version.

    :param tool: name of the tool; the site's extra of that name, in lower case, is its command.
    :param name: name of the software that the tool installs, for messages.
    :raises UnsupportedError: the default command is not on the PATH.
    :raises CacheError: the tool does not run, or the site names a command that does not exist.
    """
    try:
        process = subprocess.run(
            [command, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        # The site names any other command.
        raise (UnsupportedError if command == "spack" else CacheError)(
            f"no software: {name} comes from {tool}, and there is no {command} ({error.strerror}): name it, or a "
            f"program of the site's: site's extras, {tool.lower()} or software"
        ) from None
    output = process.stdout.decode(errors="replace").strip()
    if process.returncode != 0:
        raise CacheError(f"{command} --version fails: {(output.splitlines() or ['it prints nothing'])[-1]}")
    return output
