"""What containers of two runtimes see around them: variables, mounts, limits; and how the runtimes are set up."""

from __future__ import annotations

import re
from collections.abc import Mapping

from containercheck.node import contract
from containercheck.node.container_runtimes import RUNTIMES

#: Variables that are of one process or one job, or tell the runtime's own version and command, where it was typed, and
#: which image it is.
_OF_RUNTIME = "|".join(runtime.settings for runtime in RUNTIMES if runtime.settings)
_OWN = re.compile(
    rf"^(_|PWD|OLDPWD|SHLVL|USER_PATH|{contract.RUN}|({_OF_RUNTIME})(COMMAND|VERSION|INSTANCE|CONTAINER|NAME))$"
)


def read(text: str) -> dict[str, dict[str, str]]:
    """Return what a container printed: ``variable``, ``mount`` (with its file system) and ``limit``, by name.

    :param text: see ``commands.SURROUNDINGS``.
    """
    # A variable may have blank lines; mounts begin with their numbers.
    variables, rest = re.split(r"\n\n(?=\d+ \d+ \d+:\d+ )", f"{text}\n\n0 0 0:0 ", maxsplit=1)[:2]
    mounts, _, limits = rest.removesuffix("\n\n0 0 0:0 ").partition("\n\n")
    found: dict[str, dict[str, str]] = {"variable": {}, "mount": {}, "limit": {}}
    for line in variables.splitlines():
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"\w+", name) and not _OWN.match(name):
            found["variable"][name] = value
    for line in mounts.splitlines():
        words = line.split()
        found["mount"][words[4]] = words[words.index("-") + 1]
    for line in limits.splitlines():
        name, value = line.split(":", 1) if line.startswith("Cap") else line.rsplit(None, 1)
        found["limit"][" ".join(name.split())] = value.strip()
    return found


def differences(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return a line for each thing of a kind that one has and the other has not, or has otherwise."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"{kind} {name} is gone: it was {old[name]}")
        elif name not in old:
            lines.append(f"{kind} {name} is new: {new[name]}")
        elif old[name] != new[name]:
            lines.append(f"{kind} {name} was {old[name]}, and is {new[name]}")
    return lines
