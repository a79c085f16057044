"""What this machine's own configuration says: its Debian mirror, and a Python that can make environments.

    python3 checks/containercheck machine mirror
    python3 checks/containercheck machine python

print them. Standard library only, Python 3.6 or newer.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, Sequence, Tuple

from containercheck.node.build.cache import CacheError, UnsupportedError

#: What debootstrap checks Debian's packages with, and what it says where it does not.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
UNSIGNED = "Cannot check Release signature"
#: Python that environments are made with, at least.
OLDEST = (3, 9)


def own_codename() -> str:
    """Return the code name of this machine's release (``bookworm``); an empty text where it has none."""
    try:
        release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^VERSION_CODENAME=\"?([\w.-]+)", release, re.MULTILINE)
    return found[1] if found else ""


def mirror() -> str:
    """Return the Debian mirror that this machine's own apt uses; that of its own release comes first.

    :raises CacheError: apt is not there, or has none.
    """
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(CODENAME)|$(SITE)", "Created-By: Packages"]
    try:
        listing = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        listing = ""
    sites: Dict[str, str] = {}
    for line in listing.splitlines():
        origin, label, codename, site = line.split("|", 3)
        # Security updates come from elsewhere; not every mirror of them says so by the label.
        if origin == "Debian" and label != "Debian-Security" and not site.rstrip("/").endswith("-security"):
            sites.setdefault(codename, site)
    if sites:
        return sites.get(own_codename()) or next(iter(sites.values()))
    raise CacheError(
        "apt on this machine knows no Debian mirror: check its sources and run apt-get update, or name one for images "
        "in the site's extras, image_mirror"
    )


def require_keyring() -> None:
    """Have what Debian's packages are checked with: without it debootstrap takes unsigned ones, and only warns.

    :raises CacheError: it is not here, or not root's.
    """
    try:
        found = KEYRING.stat()
    except OSError:
        found = None
    if not found or not found.st_size or found.st_uid not in (0, 65534) or found.st_mode & 0o022:
        raise CacheError(
            f"no {KEYRING}, or it can be written by others: Debian's packages are checked with it; install "
            "debian-archive-keyring, or name a ready image in the site's extras, images"
        )


def python(versions: Sequence[str] = ()) -> Tuple[str, str]:
    """Return a Python that can make environments, and its version (``3.11``).

    The system's own comes first: one from a home directory may be closed to other users, and missing on other nodes.

    :param versions: those that will do; none for all from :data:`OLDEST` on.
    :raises CacheError: there is none, of any version.
    :raises UnsupportedError: there is none of these versions.
    """
    tell = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    found = []
    for name in ("/usr/bin/python3", sys.executable, "python3", *(f"python{version}" for version in versions)):
        try:
            said = subprocess.run([name, "-c", tell], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        version = said.stdout.decode().strip()
        found += [] if version in found else [version]
        if version in versions or (not versions and tuple(int(part) for part in version.split(".")) >= OLDEST):
            return name, version
    if found and versions:
        raise UnsupportedError(
            f"no software: it is pinned for Python {', '.join(versions)}, and found was only {', '.join(found)}"
        )
    raise CacheError(
        f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with its venv and ensurepip modules: install one as python3 "
        "(Debian and Ubuntu: python3-venv)"
    )


def main() -> None:
    """Print the answer, or one error and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("mirror", "python"))
    arguments = parser.parse_args()
    try:
        print(mirror() if arguments.question == "mirror" else python()[0])
    except CacheError as error:
        sys.exit(f"error: {error}")
