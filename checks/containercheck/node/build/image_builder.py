"""What a container runtime that builds images is asked: its version, and how it can compress.

Standard library only, Python 3.6 or newer.
"""

import re
import subprocess
from typing import List

from containercheck.node.build.cache import CacheError

#: Of images. Programs and libraries are read page by page while they run; unpacking gzip, the default, then costs
#: OpenFOAM 0.7 s more at each start.
COMPRESSION = ["--mksquashfs-args", "-comp lz4"]


def compression_options(runtime: str) -> List[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    try:
        said = subprocess.run([runtime, "build", "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        return []
    return COMPRESSION if COMPRESSION[0].encode() in said else []


def builder_of(runtime: str) -> str:
    """Return what a runtime says of its version, as a part of a file's name.

    :raises CacheError: it does not run.
    """
    try:
        said = subprocess.run([runtime, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CacheError(f"{runtime} --version fails: {error}") from None
    return re.sub(r"[^\w.]+", "-", said.strip())
