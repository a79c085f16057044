"""Print facts about this machine: its Debian mirror, its Pythons, and the Debian packages that checks state.

    python3 checks/containercheck/job machine mirror
    python3 checks/containercheck/job machine python
    python3 checks/containercheck/job machine packages

print the mirror; the newest Python that takes ReFrame; and the Debian packages of the checks' bare programs
(``debian = ["name", ...]``, and those of C++ headers in ``headers``). The program reads check files without running
them: this Python may not have ReFrame yet.

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

from containercheck.job import texts
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
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.decode(errors="replace")


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
    rejected: List[str] = []
    for name in ("/usr/bin/python3", sys.executable, "python3", *(f"python{version}" for version in versions)):
        version = _version_of(name)
        if version and (version in versions if versions else _numbers(version) >= OLDEST):
            return name, version
        rejected += [version] if version and version not in rejected else []
    if rejected and versions:
        raise UnsupportedError(
            f"no software: it is pinned for Python {', '.join(versions)}, and found was only {', '.join(rejected)}"
        )
    raise CacheError(
        f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with its venv and ensurepip modules: install one as python3 "
        "(Debian and Ubuntu: python3-venv)"
    )


def newest_python() -> str:
    """Return the newest Python on the PATH that takes ReFrame; of two of a version, the system's, then the first.

    :raises CacheError: there is none.
    """
    names = ["/usr/bin/python3"]
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        names += sorted(map(str, Path(directory or ".").glob("python3*")))
    names = [name for name in names if re.search(r"/python3(\.\d+)?$", name)]
    versions = {name: version for name, version in zip(names, map(_version_of, names)) if version}
    newest = max(versions, key=lambda name: _numbers(versions[name]), default="")
    if newest and _numbers(versions[newest]) >= OLDEST_FOR_REFRAME:
        return newest
    others = ", ".join(sorted(set(versions.values()), key=_numbers)) or "none"
    raise CacheError(
        f"no Python {OLDEST_FOR_REFRAME[0]}.{OLDEST_FOR_REFRAME[1]} or newer with its venv and ensurepip modules on "
        f"the PATH (found: {others}): install one, such as python3.12 (Debian and Ubuntu: python3-venv)"
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


def packages_of(path: Path) -> List[str]:
    """Return the packages that the checks of a file state, in the order of the file.

    :raises CacheError: they are not written as a literal list of names, or the file cannot be parsed.
    """
    try:
        classes = [node for node in ast.walk(ast.parse(path.read_bytes(), str(path))) if isinstance(node, ast.ClassDef)]
    except (SyntaxError, ValueError) as error:
        raise CacheError(f"{path}: Python {sys.version.split()[0]} does not read it: {error}") from None
    stated: List[str] = []
    for statement in (statement for node in classes for statement in node.body if isinstance(statement, ast.Assign)):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        if names not in (["debian"], ["headers"]):
            continue
        try:
            value = ast.literal_eval(statement.value)
            packages = list(value.values()) if names == ["headers"] else value
        except (ValueError, AttributeError):
            packages = None
        if not isinstance(packages, list) or not all(isinstance(package, str) for package in packages):
            kind = "a dictionary" if names == ["headers"] else 'a list of names, as in ["gromacs"]'
            raise CacheError(
                f"{path}:{statement.lineno}: {names[0]} is read without running the file: write {kind} as it stands"
            )
        stated += packages
    return stated


def packages(directories: Sequence[Path]) -> List[str]:
    """Return the packages that the check files in some directories state, each once, in the order of the files.

    :raises CacheError: see :func:`packages_of`.
    """
    files = (path for directory in directories for path in sorted(directory.glob("*.py")))
    return list(dict.fromkeys(package for path in files for package in packages_of(path)))


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
    parser.add_argument("directories", nargs="*", type=Path, help="of check files; by default the project's checks")
    arguments = parser.parse_args()
    try:
        if arguments.question == "packages":
            print("\n".join(packages(arguments.directories or [CHECKS])))
        else:
            print(mirror() if arguments.question == "mirror" else newest_python())
    except CacheError as error:
        sys.exit(f"error: {error}")
