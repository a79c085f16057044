"""Compare what containers of two runtimes see: environment variables, mounts, limits; and the runtimes' settings."""

import re
from typing import Dict, List, Mapping

from containercheck.node import contract
from containercheck.node.container_runtimes import RUNTIMES

#: Variables that differ between any two processes or jobs, or that name the runtime's version and command, the
#: directory that it was called in, or the image.
_RUNTIME_PREFIXES = "|".join(runtime.settings for runtime in RUNTIMES if runtime.settings)
_EXPECTED_TO_DIFFER = re.compile(
    rf"^(_|PWD|OLDPWD|SHLVL|USER_PATH|{contract.RUN}|({_RUNTIME_PREFIXES})(COMMAND|VERSION|INSTANCE|CONTAINER|NAME))$"
)


#: What stands in a name that we give by side, instead of the side.
_SIDE = "SIDE"


def without_side(text: str, side: str, stagedir: str) -> str:
    """Return a text with the same names for all sides where we name by side: files, directories (node/contract.py).

    :param stagedir: in it, as on the host or in containers, all of these lie.

    >>> without_side("/rfm_workdir/new.host-mpi:/opt/new.d", "new", "/stage")
    '/rfm_workdir/SIDE.host-mpi:/opt/new.d'
    """
    ours = re.compile(rf"(?<![\w/.-])({contract.WORKDIR}|{re.escape(stagedir)})(/[^\s:]+)")
    named = re.compile(rf"(?<=[/.]){re.escape(side)}(?=[/.]|$)")
    return ours.sub(lambda path: path[1] + named.sub(_SIDE, path[2]), text)


def read(text: str) -> Dict[str, Dict[str, str]]:
    """Return what a container printed: ``variable``, ``mount`` (with its type of file system) and ``limit``, by name.

    :param text: see ``commands.SURROUNDINGS``.
    """
    # The value of a variable may have blank lines; lines about mounts begin with their numbers.
    variables, rest = re.split(r"\n\n(?=\d+ \d+ \d+:\d+ )", f"{text}\n\n0 0 0:0 ", maxsplit=1)[:2]
    mounts, _, limits = rest.partition("\n\n0 0 0:0 ")[0].partition("\n\n")
    seen: Dict[str, Dict[str, str]] = {"variable": {}, "mount": {}, "limit": {}}
    for line in variables.splitlines():
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"\w+", name) and not _EXPECTED_TO_DIFFER.match(name):
            seen["variable"][name] = value
    for line in mounts.splitlines():
        words = line.split()
        seen["mount"][words[4]] = words[words.index("-") + 1]
    for line in limits.splitlines():
        name, value = line.split(":", 1) if line.startswith("Cap") else line.rsplit(None, 1)
        seen["limit"][" ".join(name.split())] = value.strip()
    return seen


def differences(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> List[str]:
    """Return a line for each name that is missing in one of both, or that has another value."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"{kind} {name} is gone: it was {old[name]}")
        elif name not in old:
            lines.append(f"{kind} {name} is new: {new[name]}")
        elif old[name] != new[name]:
            lines.append(f"{kind} {name} was {old[name]}, and is {new[name]}")
    return lines
