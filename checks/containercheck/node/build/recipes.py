"""Facts read from a definition file in ``images/``: its base image, arguments and labels, and the files that it copies.

Standard library only, Python 3.6 or newer.
"""

import re
from pathlib import Path
from typing import List, Optional, Sequence

from containercheck.node import mpi, pins
from containercheck.node.build.cache import CacheError

#: Advice for a site, in messages.
_INSTEAD = "name a ready image in the site's extras, images"


def read_recipe(recipes: Path, name: str) -> str:
    """Return the text of a definition file.

    :raises CacheError: there is no such file.
    """
    try:
        return (recipes / f"{name}.def").read_text(encoding="utf-8")
    except OSError as error:
        raise CacheError(f"no definition file {recipes / name}.def: {error.strerror}") from None


def base_of(text: str) -> Optional[str]:
    """Return the name of the recipe that this one builds upon, the default of its argument ``BASE``; None for none."""
    match = re.search(r"^\s*BASE=(\S+)", text, re.MULTILINE)
    return match[1] if match else None


def is_bootstrapped(text: str) -> bool:
    """Tell whether a recipe installs Debian from packages, by debootstrap."""
    return re.search(r"^Bootstrap:\s*debootstrap\s*$", text, re.MULTILINE | re.IGNORECASE) is not None


def jar_list(recipes: Path, text: str) -> Optional[Path]:
    """Return the path of a recipe's list of jars, the default of its argument ``JARS``; None for none."""
    match = re.search(r"^\s*JARS=(\S+)", text, re.MULTILINE)
    return recipes.parent / match[1] if match else None


def takes(text: str, argument: str) -> bool:
    """Tell whether a recipe uses an argument: the runtime refuses arguments that it does not use."""
    return re.search(r"\{\{\s*" + argument + r"\s*\}\}", text) is not None


def taken(text: str, arguments: Sequence[str]) -> List[str]:
    """Return those of the given arguments, each ``NAME=value``, that a recipe uses."""
    return [argument for argument in arguments if takes(text, argument.partition("=")[0])]


def copied_files(recipes: Path, text: str) -> List[Path]:
    """Return the files of the repository that a recipe copies, by ``%files`` or as its list of jars."""
    section = re.search(r"^%files\s*\n(.*?)(?=^%|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for line in section[1].splitlines()] if section else []
    paths = [recipes.parent / line.split()[0] for line in lines if line and not line.startswith(("#", "{{"))]
    pinned = jar_list(recipes, text)
    return [*paths, pinned] if pinned else paths


def label_of(text: str, name: str) -> Optional[str]:
    """Return a recipe's label, or None: ``MPI`` names its only family, ``RELEASE`` its only release."""
    match = re.search(r"^%labels\s*\n(?:\s+.*\n)*?\s+" + name + r" (\S+)$", text, re.MULTILINE)
    return match[1] if match else None


def environment_of(recipes: Path, text: str) -> Optional[Path]:
    """Return the directory of a recipe's environment of Spack, the default of its argument ``SPACK``; None for none."""
    match = re.search(r"^\s*SPACK=(\S+)", text, re.MULTILINE)
    return recipes.parent / match[1] if match else None


def not_for(recipes: Path, name: str, text: str, architecture: str, release: str, family: str) -> Optional[str]:
    """Return why a recipe cannot give an image for this architecture, release and family; None where it can.

    :raises OSError: requirements that it copies cannot be read.
    """
    only_release, only_family = label_of(text, "RELEASE"), label_of(text, "MPI")
    if only_release not in (None, release):
        return (
            f"{name}.def is for {only_release} only, which has its software, and the image would be of {release}: "
            f"{_INSTEAD}"
        )
    if only_family not in (None, family):
        titles = mpi.FAMILIES[only_family].title, mpi.FAMILIES[family].title
        return f"{name}.def is for {titles[0]} only, and the partition's MPI is {titles[1]}: {_INSTEAD}"
    pinned = (path for path in copied_files(recipes, text) if path.name == "requirements.txt")
    return next(filter(None, (pins.not_for(name, path, architecture) for path in pinned)), None)
