"""This machine's settings of pip, for a pip in an image.

Index, certificates and proxy are those of the machine: recipes do not name them.

Standard library only, Python 3.6 or newer.
"""

import ast
import configparser
import os
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Dict

#: Settings that name files or directories which are copied too.
_PATHS = ("cert", "client-cert", "find-links")
#: Settings that make sense on this machine only, and are left out.
_DROPPED = ("cache-dir", "log", "prefix", "target", "user", "require-virtualenv", "python")


def settings() -> Dict[str, Dict[str, str]]:
    """Return pip's settings by section and name: from files and from the environment, which takes precedence."""
    for command in ([sys.executable, "-m", "pip"], ["/usr/bin/python3", "-m", "pip"], ["pip3"]):
        try:
            process = subprocess.run(
                [*command, "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
            )
            listing = process.stdout.decode(errors="replace")
            break
        except (OSError, subprocess.CalledProcessError):
            listing = ""
    sections: Dict[str, Dict[str, str]] = {"global": {}}
    environment: Dict[str, str] = {}
    for section, name, value in re.findall(r"^([^.=]+)\.([^=]+)=(.*)$", listing, re.MULTILINE):
        target = environment if section == ":env:" else sections.setdefault(section, {})
        target[name] = str(ast.literal_eval(value))
    for name, value in environment.items():
        for values in sections.values():
            values.pop(name, None)
        sections["global"][name] = value
    common = sections["global"]
    # The store of certificates that pip brings differs from version to version.
    certificates = os.environ.get("REQUESTS_CA_BUNDLE") or ssl.get_default_verify_paths().cafile
    if certificates:
        common.setdefault("cert", certificates)
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if proxy:
        common.setdefault("proxy", proxy)
    return sections


def copy(directory: Path, seen_as: str) -> Path:
    """Write the settings and the files that they name into ``directory``, as ``pip.conf``, and return the directory.

    :param seen_as: path of the directory in the image.
    :raises OSError: a file that a setting names cannot be read, or the copy cannot be written.
    """
    directory.mkdir()
    writer = configparser.RawConfigParser()
    for section, values in settings().items():
        kept = {name: value for name, value in values.items() if name not in _DROPPED}
        for name in _PATHS:
            if name in kept:
                words = [_copied(word, directory, seen_as) for word in kept[name].split()]
                kept[name] = "\n".join(word for word in words if word)
        writer[section] = {name: value for name, value in kept.items() if value}
    path = directory / "pip.conf"
    path.touch(mode=0o600)  # an index may have a password in its address
    with path.open("w", encoding="utf-8") as stream:
        writer.write(stream)
    return directory


def _copied(word: str, directory: Path, seen_as: str) -> str:
    """Copy a file or directory that a setting names, and return its path in the image; an address stays as it is."""
    path = Path(word)
    if "://" in word or not path.exists():
        return word if "://" in word else ""
    name = f"{len(list(directory.iterdir()))}-{path.name}"
    if path.is_dir():
        shutil.copytree(path, directory / name)
    else:
        shutil.copy(path, directory / name)
    return f"{seen_as}/{name}"
