"""Declare and check the extras of a site file: keys that this library reads beyond ReFrame's own.

They are in ``extras["containercheck"]`` of a partition. Other keys of ``extras`` belong to other libraries, and are
ignored.
"""

from __future__ import annotations

import difflib
import numbers
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime

from containercheck.job.contract import CHECKS, RECIPES

#: Key of this library among the extras of a partition.
NAMESPACE = "containercheck"
#: Definition of a check in a file.
_CHECK = re.compile(r"^@(?:\w+\.)?simple_test\nclass (\w+)", re.MULTILINE)
#: Statement of the recipe of a check's image.
_RECIPE = re.compile(r"^    recipe = ['\"](\w+)['\"]", re.MULTILINE)


class SiteError(ReframeError):
    """Report an error in the site file; the message names the place and the remedy."""


@dataclass(frozen=True)
class Extra:
    """Declare an extra.

    :ivar kind: type of the value; one of ReFrame's for a list or dictionary of something.
    :ivar least: smallest plausible number; None for any number.
    :ivar choices: the only values; empty for any.
    :ivar read: function that raises an error if it cannot read the value.
    """

    kind: Any
    least: float | None = None
    choices: Collection[str] = ()
    read: Callable[[Any], Any] | None = None

    def require(self, value: Any, where: str) -> None:
        """Check a value.

        :param where: place in the site file (for the message).
        :raises SiteError: the value is of the wrong type, or not plausible.
        """
        if not isinstance(value, self.kind) or (isinstance(value, bool) and self.kind is not bool):
            name = getattr(self.kind, "__name__", str(self.kind))
            raise SiteError(f"{where} is {value!r}, and must be of the type {name}")
        if self.least is not None and value < self.least:
            raise SiteError(f"{where} is {value}, and must be at least {self.least}")
        if self.choices and value not in self.choices:
            raise SiteError(f"{where} is {value!r}, and must be one of {', '.join(self.choices)}")
        try:
            if self.read:
                self.read(value)
        except SiteError:
            raise
        except (ValueError, ReframeError) as error:
            raise SiteError(f"{where}: {error}") from None


def extra(kind: Any, default: Any = None, **facts: Any) -> Any:
    """Return a field of a dataclass that the site file may set.

    :param default: default value; ``list`` or ``dict`` for an empty one.
    :param facts: further values of :class:`Extra`.
    """
    default_argument = {"default_factory": default} if isinstance(default, type) else {"default": default}
    return field(metadata={NAMESPACE: Extra(kind, **facts)}, **default_argument)


def path_of(text: str) -> Path:
    """Return the path of a text from a site file or a user, with $VARIABLES and ~ expanded."""
    return Path(os.path.expandvars(text)).expanduser()


def read_duration(text: str) -> None:
    """Check that ReFrame can read a duration.

    :raises ValueError: it cannot.
    """
    try:
        typ.Duration(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a duration: write '12h', or '1d6h'") from None


def _read_patterns(patterns: Mapping[str, str]) -> None:
    """Check that a value can be read with each pattern.

    :raises ValueError: a pattern is not a regular expression, or does not have exactly one group.
    """
    for name, pattern in patterns.items():
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"{name} is not a regular expression: {error}") from None
        if groups != 1:
            raise ValueError(f"{name} has {groups} groups, and needs one, for the value")


@dataclass(frozen=True)
class Software:
    """State the site's own software for one application, which takes precedence over the check's and over ``-S``.

    :ivar modules: modules that the job and the build step load for the bare program.
    :ivar environ: environment variables of the bare program, which containers do not get.
    :ivar executable: the bare program, a path or a name on the PATH; nothing is built or installed for it then.
    :ivar spack: environment of Spack that the bare program comes from: a name in spack-envs/, or a directory.
    :ivar easybuild: easyconfig that it comes from: a name in easyconfigs/ or of EasyBuild's own, or a path.
    :ivar stack: content of a built image: ``same``, the tree of Spack or EasyBuild that bare runs, or ``debian``, its
        recipe's own software. Default: the same tree if it can be packed.
    :ivar image: a ready image: a path, or a name in a registry.
    :ivar image_executable: the program in the image.
    :ivar binds: directories bound into containers of this application, as ``path`` or ``path:target``. MPI in them
        counts as the image's own.
    :ivar launcher_options: more options of the launcher, for bare and container.
    :ivar tolerance: accepted overhead in percent, for metrics without a tolerance. The extra ``tolerances``, by metric,
        takes precedence.
    :ivar input: the published input, a path or ``address#sha256=<digest>``, which is fetched once. Default: the
        embedded one. The docstring of each check describes it.
    :ivar options: options of the program, for a check of a program that only sites have.
    :ivar patterns: regular expressions, by metric or answer of such a check; group 1 of each is the value.
    """

    modules: list[str] = extra(typ.List[str], list)
    environ: dict[str, str] = extra(typ.Dict[str, str], dict)
    executable: str | None = extra(str)
    spack: str | None = extra(str)
    easybuild: str | None = extra(str)
    stack: str | None = extra(str, choices=("same", "debian"))
    image: str | None = extra(str)
    image_executable: str | None = extra(str)
    binds: list[str] = extra(typ.List[str], list)
    launcher_options: list[str] = extra(typ.List[str], list)
    # A smaller number is probably a fraction, and not a percentage.
    tolerance: float | None = extra(numbers.Real, least=0.1)
    input: str | None = extra(str)
    options: list[str] = extra(typ.List[str], list)
    patterns: dict[str, str] = extra(typ.Dict[str, str], dict, read=_read_patterns)

    @property
    def trees(self) -> dict[str, str]:
        """Return the bound paths of the host, by path in the container."""
        return {target: source for source, target in bound(self.binds)}


def bound(binds: Iterable[str]) -> list[tuple[str, str]]:
    """Return source and target of each bind, which is given as ``path`` or ``path:target``."""
    return [(source, target or source) for source, _, target in (bind.partition(":") for bind in binds)]


def declared(declaration: type) -> dict[str, Extra]:
    """Return the extras among the fields of a dataclass, by name."""
    return {member.name: member.metadata[NAMESPACE] for member in fields(declaration) if NAMESPACE in member.metadata}


def checked(declaration: type, settings: object, where: str) -> dict[str, Any]:
    """Return the values that are set for the fields of a dataclass, without those that are None.

    :param settings: dictionary of the site file.
    :param where: place in the site file, for the message.
    :raises SiteError: it is not a dictionary, a key is unknown, or a value is of the wrong type or not plausible.
    """
    if not isinstance(settings, dict):
        raise SiteError(f"{where} is {settings!r}, and must be a dictionary")
    known = declared(declaration)
    refuse_unknown(settings, known, where)
    values = {name: value for name, value in settings.items() if value is not None}
    for name, value in values.items():
        known[name].require(value, f"{where}: {name}")
    return values


def refuse_misspelt(names: Iterable[str], known: Collection[str], where: str) -> None:
    """Check that no name resembles a known one: others are those of a site's own checks, of which some are not loaded.

    :param where: place in the site file, for the message.
    :raises SiteError: a name resembles a known one.
    """
    refuse_unknown([name for name in names if nearest(name, known)], known, where)


def refuse_unknown(names: Iterable[str], known: Collection[str], where: str) -> None:
    """Check that all names are known.

    :param where: place in the site file, for the message.
    :raises SiteError: a name is not known; the message has the nearest known name, or all of them.
    """
    for name in sorted(set(names) - set(known)):
        near = "caches" if name.endswith("_cache") and "caches" in known else nearest(name, known)
        advice = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}."
        raise SiteError(f"{where}: unknown {name!r}: {advice}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name resembles most, in any case of letters; empty if none does."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), by_folded, 1)
    return by_folded[near[0]] if near else ""


def recipes() -> set[str]:
    """Return the names of the recipes of images, the library's and those that checks on the search path name."""
    named = {recipe for text in _check_files() for recipe in _RECIPE.findall(text)}
    return named | {path.stem for path in RECIPES.glob("*.def")}


def checks() -> list[str]:
    """Return the names of all checks, this library's and those on the session's search path, without an import."""
    return sorted({name for text in _check_files() for name in _CHECK.findall(text)})


def _check_files() -> Iterator[str]:
    """Yield the texts of the check files, this library's and those on the session's search path."""
    option = runtime().get_option
    pattern = "**/*.py" if option("general/0/check_search_recursive") else "*.py"
    files = [*CHECKS.glob("*.py")]
    for path in (Path(text).expanduser() for text in option("general/0/check_search_path")):
        files += [path] if path.is_file() else path.glob(pattern)
    for file in files:
        yield file.read_text(errors="replace")
