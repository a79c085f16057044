"""This machine's own settings of pip, for a pip inside an image.

Which index is asked, with which certificates and through which proxy, is a matter of the machine: no recipe says it.

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

#: Of the files and directories that the settings may name, these go along; the others mean nothing in an image.
_PATHS = ("cert", "client-cert", "find-links")
#: Of this machine only: where and how to install, and where to write.
_DROPPED = ("cache-dir", "log", "prefix", "target", "user", "require-virtualenv", "python")


def settings() -> Dict[str, Dict[str, str]]:
    """Return section, name and value of what pip is told here, by files and by the environment, which outranks them."""
    for command in ([sys.executable, "-m", "pip"], ["/usr/bin/python3", "-m", "pip"], ["pip3"]):
        try:
            said = subprocess.run(
                [*command, "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
            )
            listing = said.stdout.decode()
            break
        except (OSError, subprocess.CalledProcessError):
            listing = ""
    found: Dict[str, Dict[str, str]] = {"global": {}}
    environment: Dict[str, str] = {}
    for section, name, value in re.findall(r"^([^.=]+)\.([^=]+)=(.*)$", listing, re.MULTILINE):
        target = environment if section == ":env:" else found.setdefault(section, {})
        target[name] = str(ast.literal_eval(value))
    for name, value in environment.items():
        for known in found.values():
            known.pop(name, None)
        found["global"][name] = value
    common = found["global"]
    # What pip takes from elsewhere: its own store of certificates differs from version to version.
    certificates = os.environ.get("REQUESTS_CA_BUNDLE") or ssl.get_default_verify_paths().cafile
    if certificates:
        common.setdefault("cert", certificates)
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if proxy:
        common.setdefault("proxy", proxy)
    return found


def copy(directory: Path, seen_as: str) -> Path:
    """Write the settings into ``directory``, as ``pip.conf``, with the files that they name; return the directory.

    :param seen_as: where the image will have the directory.
    :raises OSError: a file that a setting names cannot be read, or the copy not be written.
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
    """Copy a file or directory that a setting names, and return what the image is to be told: an address stays."""
    path = Path(word)
    if "://" in word or not path.exists():
        return word if "://" in word else ""
    name = f"{len(list(directory.iterdir()))}-{path.name}"
    if path.is_dir():
        shutil.copytree(path, directory / name)
    else:
        shutil.copy(path, directory / name)
    return f"{seen_as}/{name}"
