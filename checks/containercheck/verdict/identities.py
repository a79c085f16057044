"""Which builds of a program ran, by what each says of itself: different programs are no overhead, and are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from containercheck.application.facts import Identity
from containercheck.node import texts

#: What a program says of itself, by the name of the identity.
Build = Mapping[str, str]


def read(identity: Sequence[Identity], runs: Iterable[Mapping[str, Any]], stagedir: Path) -> dict[str, Build]:
    """Return the build of each side, as its first run that succeeded tells; none of a side that tells nothing.

    :param runs: of the record.
    """
    found: dict[str, Build] = {}
    for run in runs:
        if run["side"] not in found and run["status"] == 0:
            found[run["side"]] = _of_run(identity, stagedir / run["output"])
    return {side: build for side, build in found.items() if build}


def difference(baseline: Build, subject: Build) -> str:
    """Return a line that names two builds, the baseline's first; empty where they are the same, or do not tell."""
    common = [name for name in baseline if name in subject]
    if all(baseline[name] == subject[name] for name in common):
        return ""
    return f"not the same build: {_named(baseline, common)} against {_named(subject, common)}"


def _named(build: Build, names: Iterable[str]) -> str:
    return " ".join(build[name] for name in names)


def _of_run(identity: Iterable[Identity], output: Path) -> Build:
    build = {}
    for one in identity:
        try:
            told = re.search(one.pattern, texts.read(output / one.file), re.MULTILINE)
        except (OSError, texts.TooLongError):
            continue
        if told:
            build[one.name] = texts.printable(told[1])
    return build
