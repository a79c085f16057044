"""What a site file says beyond ReFrame's own keys: how extras are declared, and how what was given is checked.

Ours are in ``extras["containercheck"]`` of a partition. What lies beside them is other libraries', and not looked at.
"""

from __future__ import annotations

import difflib
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.runtime import runtime

from containercheck.node.project import CHECKS

#: Key of ours among the extras of a partition.
NAMESPACE = "containercheck"
#: How a file names its checks.
_CHECK = re.compile(r"^@(?:\w+\.)?simple_test\nclass (\w+)", re.MULTILINE)


class SiteError(Exception):
    """The site file is wrong; the message says where, and what to do."""


@dataclass(frozen=True)
class Size:
    """State which numbers can be meant by a size.

    :ivar unit: in the plural, for the message.
    :ivar example: a number as it is written, and what it stands for.
    """

    least: float
    most: float
    unit: str
    example: str


#: Memory of a node: less than 128 MiB runs no Linux of today, and 128 TiB is more than any node has.
NODE_MEMORY = Size(1 << 27, 1 << 47, "bytes", "96 << 30 for 96 GiB")
NODE_COUNT = Size(1, 1 << 20, "nodes", "16 for jobs on up to 16 nodes")
#: An overhead that is accepted everywhere: below a tenth of a percent, a fraction of 1 is meant.
PERCENT = Size(0.1, 1000, "percent", "5.0 for 5 %")


def extra(kind: Any, default: Any = None, size: Size | None = None) -> Any:
    """Return the field of a dataclass that the site file may give.

    :param kind: the type that it must have, ReFrame's where it is of something.
    :param default: its value where nothing is given; ``list`` or ``dict`` for an empty one.
    :param size: for a number, what it may be.
    """
    made = {"default_factory": default} if isinstance(default, type) else {"default": default}
    return field(metadata={"type": kind, "size": size}, **made)


@dataclass(frozen=True)
class Software:
    """The site's own software for one application: what it names takes the place of the check's, and of ``-S``.

    :ivar modules: what the job and the build step load for the bare program.
    :ivar environ: variables that the bare program has, as they are, and no container.
    :ivar executable: the bare program, a path or a name on the PATH; nothing is built or installed for it then.
    :ivar spack: environment of Spack that the bare program comes from: a name in spack-envs/, or a directory.
    :ivar easybuild: easyconfig that it comes from: a name in easyconfigs/ or of EasyBuild's own, or a path.
    :ivar image: a ready image: a path, or a name in a registry.
    :ivar image_executable: the program in the image.
    :ivar binds: what containers of this application have too, as ``path`` or ``path:target``. MPI that is loaded from
        there counts as the image's own.
    :ivar launcher_options: more options of the launcher, for bare and container.
    :ivar image_launcher_options: options of the launcher for generic containers only, after those.
    :ivar tolerance: accepted overhead in percent, for figures that name none of their own. The extra ``tolerances``,
        which is by figure, goes before it.
    :ivar input: the published input; the same as in the extra ``inputs``.
    :ivar options: options of the program, for a check whose program only sites have.
    :ivar patterns: regular expressions, by figure or answer of such a check; group 1 of each is the value.
    """

    modules: list[str] = extra(typ.List[str], list)
    environ: dict[str, str] = extra(typ.Dict[str, str], dict)
    executable: str | None = extra(str)
    spack: str | None = extra(str)
    easybuild: str | None = extra(str)
    image: str | None = extra(str)
    image_executable: str | None = extra(str)
    binds: list[str] = extra(typ.List[str], list)
    launcher_options: list[str] = extra(typ.List[str], list)
    image_launcher_options: list[str] = extra(typ.List[str], list)
    tolerance: float | None = extra(numbers.Real, size=PERCENT)
    input: str | None = extra(str)
    options: list[str] = extra(typ.List[str], list)
    patterns: dict[str, str] = extra(typ.Dict[str, str], dict)

    def check_patterns(self, where: str) -> None:
        """Refuse a pattern from which no value could be read.

        :raises SiteError: one is no regular expression, or has not one group.
        """
        for name, pattern in self.patterns.items():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise SiteError(f"{where}: patterns: {name} is no regular expression: {error}") from None
            if groups != 1:
                raise SiteError(f"{where}: patterns: {name} has {groups} groups, and needs one, for the value")

    @property
    def trees(self) -> dict[str, str]:
        """What is bound: paths of the host, by their place in the container."""
        return {target: source for source, target in bound(self.binds)}


def bound(binds: Iterable[str]) -> list[tuple[str, str]]:
    """Return source and target of what a site has bound into containers, each given as ``path`` or ``path:target``."""
    return [(source, target or source) for source, _, target in (bind.partition(":") for bind in binds)]


def ours(of: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what the extras of a partition have for us.

    :param of: the dataclass whose fields they are.
    :raises SiteError: it is no dictionary; or a key of ours lies beside it, where it was until our keys had a place of
        their own, and where another library may have one of the same name.
    """
    found = given.get(NAMESPACE)
    if found is not None and not isinstance(found, dict):
        raise SiteError(f"{where}: {NAMESPACE} is {found!r}, and must be a dictionary of what is ours")
    found = found or {}
    for name in (one.name for one in fields(of) if "type" in one.metadata):
        if name in given and name not in found:
            raise SiteError(
                f"{where}: {name!r} goes into 'extras': {{{NAMESPACE!r}: {{{name!r}: ...}}}}; if it is another "
                f"library's, write {name!r}: None in there"
            )
    return found


def checked(of: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what was given for the fields of a dataclass; None stands for what was not.

    :raises SiteError: a key is unknown, or a value is of the wrong type or of a size that cannot be meant.
    """
    known = {one.name: one.metadata for one in fields(of) if "type" in one.metadata}
    refuse_unknown(given, known, sorted(known), where)
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        kind, size = known[name]["type"], known[name]["size"]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise SiteError(
                f"{where}: {name} is {value!r}, and must be of the type {getattr(kind, '__name__', str(kind))}"
            )
        if size and not size.least <= value <= size.most:
            raise SiteError(f"{where}: {name} is {value} {size.unit}, which cannot be meant: write {size.example}")
    return found


def refuse_unknown(given: Iterable[str], allowed: Iterable[str], known: list[str], where: str, hint: str = "") -> None:
    """Refuse a name that is not allowed.

    :param known: names to be suggested.
    :param hint: what else may be done about it.
    :raises SiteError: it has the nearest name that is known, or all of them.
    """
    for name in sorted(set(given) - set(allowed)):
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
        raise SiteError(f"{where}: unknown {name!r}: {meant}{hint}")


def checks() -> list[str]:
    """Return the names of the checks: ours, and those where this session looks for others. No file is imported."""
    option = runtime().get_option
    names = "**/*.py" if option("general/0/check_search_recursive") else "*.py"
    files = [*CHECKS.glob("*.py")]
    for place in (Path(path).expanduser() for path in option("general/0/check_search_path")):
        files += [place] if place.is_file() else place.glob(names)
    found = (_CHECK.findall(one.read_text(errors="replace")) for one in files)
    return sorted({name for one in found for name in one})
