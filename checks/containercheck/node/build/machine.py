"""Facts about this machine: its Debian mirror, and Pythons that can make virtual environments.

    python3 checks/containercheck machine mirror
    python3 checks/containercheck machine python

print them. Standard library only, Python 3.6 or newer.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from containercheck.node.build.cache import CacheError, UnsupportedError

#: Keys with which debootstrap checks Debian's packages.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Warning of debootstrap that it does not check them.
UNSIGNED = "Cannot check Release signature"
#: Oldest Python for virtual environments of checks.
OLDEST = (3, 9)
#: Oldest Python for ReFrame and this library, as in pyproject.toml.
OLDEST_FOR_REFRAME = (3, 10)


def own_codename() -> str:
    """Return the code name of this machine's release (``bookworm``); empty for a release without one."""
    try:
        release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"^VERSION_CODENAME=\"?([\w.-]+)", release, re.MULTILINE)
    return match[1] if match else ""


def mirror() -> str:
    """Return the Debian mirror of this machine's apt, if possible that for this machine's release.

    :raises CacheError: there is no apt, or it has no Debian mirror.
    """
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(CODENAME)|$(SITE)", "Created-By: Packages"]
    try:
        listing = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode(
            errors="replace"
        )
    except (OSError, subprocess.CalledProcessError):
        listing = ""
    sites: Dict[str, str] = {}
    for line in listing.splitlines():
        origin, label, codename, site = line.split("|", 3)
        # Not the mirrors of security updates, of which some lack the label.
        if origin == "Debian" and label != "Debian-Security" and not site.rstrip("/").endswith("-security"):
            sites.setdefault(codename, site)
    if sites:
        return sites.get(own_codename()) or next(iter(sites.values()))
    raise CacheError(
        "apt on this machine knows no Debian mirror: check its sources and run apt-get update, or name one for images "
        "in the site's extras, image_mirror"
    )


def require_keyring() -> None:
    """Check that the keys of Debian's packages are there: without them debootstrap only warns of unsigned packages.

    :raises CacheError: the file of keys does not exist, or other users than root can write it.
    """
    try:
        status = KEYRING.stat()
    except OSError:
        status = None
    if not status or not status.st_size or status.st_uid not in (0, 65534) or status.st_mode & 0o022:
        raise CacheError(
            f"no {KEYRING}, or it can be written by others: Debian's packages are checked with it; install "
            "debian-archive-keyring, or name a ready image in the site's extras, images"
        )


def python(versions: Sequence[str] = ()) -> Tuple[str, str]:
    """Return a Python that can make virtual environments, and its version (``3.11``).

    The system's Python comes first: one in a home directory may be closed to other users, and missing on other nodes.

    :param versions: accepted versions; empty for all from :data:`OLDEST` on.
    :raises CacheError: there is no such Python of any version.
    :raises UnsupportedError: there is no such Python of the accepted versions.
    """
    found_versions: List[str] = []
    for name in ("/usr/bin/python3", sys.executable, "python3", *(f"python{version}" for version in versions)):
        version = _version_of(name)
        if not version:
            continue
        found_versions += [] if version in found_versions else [version]
        if version in versions or (not versions and _numbers(version) >= OLDEST):
            return name, version
    if found_versions and versions:
        raise UnsupportedError(
            f"no software: it is pinned for Python {', '.join(versions)}, and found was only "
            f"{', '.join(found_versions)}"
        )
    raise CacheError(
        f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with its venv and ensurepip modules: install one as python3 "
        "(Debian and Ubuntu: python3-venv)"
    )


def _version_of(name: str) -> str:
    """Return the version of a Python (``3.11``); empty where it is not one that can make virtual environments."""
    print_version = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    words = [name, "-c", print_version]
    try:
        process = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.decode(errors="replace").strip()


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def newest_python() -> str:
    """Return the newest Python on the PATH that takes ReFrame; of two of a version, the system's, then the first.

    :raises CacheError: there is none.
    """
    names = ["/usr/bin/python3"]
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        names += sorted(map(str, Path(directory or ".").glob("python3*")))
    names = [name for name in names if re.search(r"/python3(\.\d+)?$", name)]
    found = {name: version for name, version in zip(names, map(_version_of, names)) if version}
    newest = max(found, key=lambda name: _numbers(found[name]), default="")
    if newest and _numbers(found[newest]) >= OLDEST_FOR_REFRAME:
        return newest
    others = ", ".join(sorted(set(found.values()), key=_numbers)) or "none"
    raise CacheError(
        f"no Python {OLDEST_FOR_REFRAME[0]}.{OLDEST_FOR_REFRAME[1]} or newer with its venv and ensurepip modules on "
        f"the PATH (found: {others}): install one, such as python3.12 (Debian and Ubuntu: python3-venv)"
    )


def main() -> None:
    """Print the mirror or the Python; or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("mirror", "python"))
    arguments = parser.parse_args()
    try:
        print(mirror() if arguments.question == "mirror" else newest_python())
    except CacheError as error:
        sys.exit(f"error: {error}")
