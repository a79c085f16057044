"""What a container runtime that builds images is asked: its version, how it can compress, and where it works.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Dict, List

from containercheck.node import container_runtimes
from containercheck.node.build.cache import CacheError

#: Of images. Programs and libraries are read page by page while they run; unpacking gzip, the default, then costs
#: OpenFOAM 0.7 s more at each start.
COMPRESSION = ["--mksquashfs-args", "-comp lz4"]


def compression_options(runtime: str) -> List[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    try:
        output = subprocess.run([runtime, "build", "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        return []
    return COMPRESSION if COMPRESSION[0].encode() in output else []


def builder_of(runtime: str) -> str:
    """Return what a runtime says of its version, as a part of a file's name.

    :raises CacheError: it does not run.
    """
    return re.sub(r"[^\w.]+", "-", _version_of(runtime))


def build_environment(runtime: str, directory: Path) -> Dict[str, str]:
    """Return the variables that let a runtime build in a directory."""
    version = ""
    # A runtime that does not even print its version fails in the build, with a message.
    with contextlib.suppress(CacheError):
        version = _version_of(runtime)
    variable = container_runtimes.recognized(runtime, version).build_directory
    return {variable: str(directory)} if variable else {}


def _version_of(runtime: str) -> str:
    words = [runtime, *container_runtimes.by_command(runtime).version]
    try:
        return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CacheError(f"{' '.join(words)} fails: {error}") from None
