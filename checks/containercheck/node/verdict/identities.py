"""Find out which build of a program each side ran: a difference of programs is not overhead, and is reported."""

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterable, Mapping, Sequence

from containercheck.node import contract, texts

#: What a program prints about its own build, by the name of the identity.
Build = Mapping[str, str]


def read(identity: Sequence[Any], runs: Iterable[Mapping[str, Any]], stagedir: Path) -> Dict[str, Build]:
    """Return the build of each side, as its first successful run printed it; sides that print nothing are left out.

    :param runs: of the record.
    """
    builds: Dict[str, Build] = {}
    for run in runs:
        if run["side"] not in builds and run["status"] == 0:
            builds[run["side"]] = _printed_in(identity, stagedir / run["output"])
    return {side: build for side, build in builds.items() if build}


def known(identity: Sequence[Any], runs: Iterable[Mapping[str, Any]], stagedir: Path) -> Dict[str, str]:
    """Return the build of each side's program, and of the bare software, as far as they are known, each in a line."""
    builds: Dict[str, Any] = dict(read(identity, runs, stagedir))
    for provider, name in (("spack", contract.SPACK_RECORD), ("easybuild", contract.EASYBUILD_RECORD)):
        if (stagedir / name).exists():
            builds[provider] = json.loads((stagedir / name).read_text())
    return joined(builds)


def joined(builds: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Return each build in a line."""
    return {name: ", ".join(map(str, build.values())) for name, build in builds.items()}


def difference(baseline: Build, subject: Build) -> str:
    """Return a line that names two builds, the baseline's first; empty where they agree, or print nothing."""
    common = [name for name in baseline if name in subject]
    if all(baseline[name] == subject[name] for name in common):
        return ""
    return f"not the same build: {_values(baseline, common)} against {_values(subject, common)}"


def _values(build: Build, names: Iterable[str]) -> str:
    return " ".join(build[name] for name in names if build[name])


def _printed_in(identity: Iterable[Any], output: Path) -> Build:
    build = {}
    for fact in identity:
        try:
            match = re.search(fact.pattern, texts.read(output / fact.file), re.MULTILINE)
        except (OSError, texts.TooLongError):
            continue
        if match:
            build[fact.name] = texts.printable(match[1])
    return build
