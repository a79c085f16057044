"""Print a line for each check: its description, variants, node counts, tags and maintainers; run nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from containercheck.command.parsers import FINE, parsed
from containercheck.results.formatting import by_key, columns
from containercheck.session import reframe_process, usage
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError

#: Titles of the columns.
TITLES = ("check", "description", "variants", "nodes", "tags", "maintainers")


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the checks that ReFrame selects with these arguments, and return the exit status."""
    _, arguments, _ = parsed("list", argv)
    asked = subprocess.run(
        [reframe_process.program(), "--nocolor", "-c", place.checks, *arguments, "--describe"],
        cwd=place.directory,
        env=reframe_process.environment(place),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if complaint := usage.complaint(asked.stderr):
        raise UsageError(complaint)
    if asked.returncode:
        raise ReframeFailed((asked.stdout + asked.stderr).strip().splitlines()[-1].split("ERROR: ")[-1])
    tests = json.loads(asked.stdout[asked.stdout.index("[") :])
    if not tests:
        raise ReframeFailed("no check is selected")
    print("\n".join(columns([TITLES, *rows(tests)])))
    return FINE


def rows(tests: Iterable[Mapping[str, Any]]) -> list[Sequence[str]]:
    """Return the columns of each check.

    :param tests: the attributes of ReFrame's tests, as ``reframe --describe`` prints them.
    """
    checks = by_key(tests, lambda test: str(test["@class"]))
    return [
        (
            name,
            cases[0]["descr"],
            ", ".join(dict.fromkeys(case["variant"] for case in cases)),
            ", ".join(map(str, sorted({case["num_nodes"] for case in cases}))),
            " ".join(sorted({tag for case in cases for tag in case["tags"]})),
            ", ".join(sorted({person for case in cases for person in case["maintainers"]})),
        )
        for name, cases in sorted(checks.items())
    ]
