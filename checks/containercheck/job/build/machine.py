"""Print facts about this machine: its Debian mirror, its Pythons, and the Debian packages that checks state.

    python3 checks/containercheck/job machine mirror
    python3 checks/containercheck/job machine python
    python3 checks/containercheck/job machine packages

print the mirror; a Python that takes ReFrame; and the Debian packages of the checks' bare programs
(``debian = ["name", ...]``, and those of C++ headers in ``headers``). The program reads check files as text: this
Python may not have ReFrame yet.

Not every project has wheels for every architecture. If requirements are only for some machines, a comment in them
names these:

    # only for: x86_64; Python 3.11, 3.12

Standard library only, Python 3.6 or newer.
"""

import argparse
import ast
import configparser
import os
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from containercheck.job import processes, texts
from containercheck.job.build.cache import CacheError, UnsupportedError

#: Directory of this project's checks.
CHECKS = Path(__file__).resolve().parents[3]
#: Keys with which debootstrap checks Debian's packages.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Oldest Python for virtual environments of checks; and for ReFrame and this library, as in pyproject.toml.
OLDEST, OLDEST_FOR_REFRAME = (3, 9), (3, 10)
#: Settings of pip that an image needs too; the file that ``cert`` names is copied.
_SETTINGS_OF_PIP = ("index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "proxy", "cert")


def _output_of(command: Sequence[str]) -> str:
    """Return the output of a command; empty if it fails or does not exist."""
    status, output = processes.answer_of(command, stderr=subprocess.DEVNULL)
    return output if status == 0 else ""


def own_codename() -> str:
    """Return the code name of this machine's release (``bookworm``); empty for a release without one."""
    match = re.search(r"^VERSION_CODENAME=\"?([\w.-]+)", texts.small(Path("/etc/os-release")), re.MULTILINE)
    return match[1] if match else ""


def mirror() -> str:
    """Return the Debian mirror of this machine's apt, if possible that for this machine's release.

    :raises CacheError: there is no apt, or it has no Debian mirror.
    """
    columns = "$(ORIGIN)|$(LABEL)|$(CODENAME)|$(SITE)"
    sites: Dict[str, str] = {}
    for line in _output_of(["apt-get", "indextargets", "--format", columns, "Created-By: Packages"]).splitlines():
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
    status = KEYRING.stat() if KEYRING.exists() else None
    if not status or not status.st_size or status.st_uid not in (0, 65534) or status.st_mode & 0o022:
        raise CacheError(
            f"no {KEYRING}, or it can be written by others: Debian's packages are checked with it; install "
            "debian-archive-keyring, or name a ready image in the site's extras, images"
        )


def python(versions: Sequence[str] = (), oldest: Tuple[int, int] = OLDEST) -> Tuple[str, str]:
    """Return a Python that can make virtual environments, and its version (``3.11``).

    The system's Python comes first: one in a home directory may be closed to other users, and missing on other nodes.
    The others on the PATH come last.

    :param versions: accepted versions; empty for all from ``oldest`` on.
    :raises CacheError: there is no such Python of any version.
    :raises UnsupportedError: there is no such Python of the accepted versions.
    """
    names = ["/usr/bin/python3", sys.executable]
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        names += sorted(map(str, Path(directory or ".").glob("python3*")))
    found = []
    for name in (name for name in dict.fromkeys(names) if re.search(r"/python3(\.\d+)?$", name)):
        version = _version_of(name)
        if version and (version in versions if versions else _numbers(version) >= oldest):
            return name, version
        found += [version] if version and version not in found else []
    others = ", ".join(found) or "none"
    if found and versions:
        wanted = ", ".join(versions)
        raise UnsupportedError(f"no software: it is pinned for Python {wanted}, and found was only {others}")
    raise CacheError(
        f"no Python {oldest[0]}.{oldest[1]} or newer with its venv and ensurepip modules on the PATH (found: "
        f"{others}): install one, such as python3.12 (Debian and Ubuntu: python3-venv)"
    )


def _version_of(name: str) -> str:
    """Return the version of a Python (``3.11``); empty if it cannot make virtual environments."""
    return _output_of([name, "-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]).strip()


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def pip_settings() -> Dict[str, str]:
    """Return the settings of this machine's pip that an image needs: the environment's outrank those of files."""
    commands = ([sys.executable, "-m", "pip"], ["/usr/bin/python3", "-m", "pip"], ["pip3"])
    listing = next(filter(None, (_output_of([*command, "config", "list"]) for command in commands)), "")
    lines = re.findall(r"^(global|install|:env:)\.([^=]+)=(.*)$", listing, re.MULTILINE)
    # The store of certificates that pip brings differs from version to version.
    certificates = os.environ.get("REQUESTS_CA_BUNDLE") or ssl.get_default_verify_paths().cafile
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    settings = {name: value for name, value in (("cert", certificates), ("proxy", proxy)) if value}
    for section in ("global", "install", ":env:"):
        settings.update((name, str(ast.literal_eval(value))) for place, name, value in lines if place == section)
    return {name: value for name, value in settings.items() if name in _SETTINGS_OF_PIP}


def copy_pip_settings(directory: Path, seen_as: str) -> Path:
    """Write pip's settings and its certificates into ``directory``, as ``pip.conf``, and return the directory.

    Index, certificates and proxy of a pip in an image are those of the machine: recipes do not name them.

    :param seen_as: path of the directory in the image.
    :raises CacheError: the certificates cannot be read.
    :raises OSError: the copy cannot be written.
    """
    directory.mkdir()
    settings = pip_settings()
    if "cert" in settings:
        try:
            shutil.copy(settings["cert"], str(directory / "certificates.pem"))
        except OSError as error:
            raise CacheError(f"pip's certificates, {settings['cert']}, cannot be read: {error.strerror}") from None
        settings["cert"] = f"{seen_as}/certificates.pem"
    writer = configparser.RawConfigParser()
    writer["global"] = settings
    path = directory / "pip.conf"
    path.touch(mode=0o600)  # an index may have a password in its address
    with path.open("w", encoding="utf-8") as stream:
        writer.write(stream)
    return directory


def packages(directory: Path) -> List[str]:
    """Return the packages that the check files in a directory state, each once, in the order of the files.

    :raises OSError: a file cannot be read.
    """
    text = "\n".join(texts.utf8(path) for path in sorted(directory.glob("*.py")))
    stated: List[str] = []
    for debian, headers in re.findall(r"^    (?:debian = \[([^]]*)\]|headers = \{([^}]*)\})$", text, re.MULTILINE):
        stated += re.findall(r'"(.*?)"', debian) or re.findall(r': "(.*?)"', headers)
    return list(dict.fromkeys(stated))


def limits_of(requirements: str) -> Tuple[List[str], List[str]]:
    """Return the architectures and the versions of Python that requirements are pinned for; empty lists for all."""
    limits = re.search(r"^# only for: ([^;\n]*)(?:; Python (.*))?$", requirements, re.MULTILINE)
    if not limits:
        return [], []
    architectures, versions = (re.findall(r"[\w.]+", part or "") for part in limits.groups())
    return architectures, versions


def not_for(name: str, requirements: Path, architecture: str) -> Optional[str]:
    """Return why requirements cannot be used on an architecture; None if they can.

    :param name: of the software, for the message.
    :param requirements: file with the requirements.
    :raises OSError: the file cannot be read.
    """
    pinned, _ = limits_of(texts.utf8(requirements))
    if not pinned or architecture in pinned:
        return None
    return (
        f"{name} is pinned for {', '.join(pinned)}, and the partition is {architecture}: "
        f"pin it for that too, in {requirements}"
    )


def main() -> None:
    """Print the mirror, the Python or the packages; or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("mirror", "python", "packages"))
    arguments = parser.parse_args()
    try:
        if arguments.question == "packages":
            print("\n".join(packages(CHECKS)))
        else:
            print(mirror() if arguments.question == "mirror" else python(oldest=OLDEST_FOR_REFRAME)[0])
    except CacheError as error:
        sys.exit(f"error: {error}")
