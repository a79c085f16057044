"""How to do it again: the command that selects a case, and the scripts that its job ran."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from report.cases import Case

#: How a job writes a script for one of its sides: containercheck.commands does.
SCRIPT = re.compile(r"cat >(?P<name>[^.\s]+\.sh) <<'END'\n(?P<text>.*)\nEND", re.DOTALL)


def command(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return the command that runs exactly these cases, which have one partition and environment; "" for none.

    ReFrame searches for the expression in the name as it shows it, without the spaces.

    :param everything: all cases of the night: where a partition has one environment, it need not be told.
    """
    if not cases:
        return ""
    system, partition, environ, _ = cases[0].key
    selection = "|".join(f"^{_escaped(case.name.replace(' ', ''))}$" for case in cases)
    words = ["ci/run", f"--system={system}:{partition}"] if system else ["ci/run"]
    if any(case.key[:2] == (system, partition) and case.key[2] != environ for case in everything):
        words += ["-p", f"^{_escaped(environ)}$"]
    words += ["-n", selection]
    if any("full" in case.tags for case in cases):
        words += ["-S", "full=yes"]
    return shlex.join(words)


def _escaped(text: str) -> str:
    # ReFrame takes a name with an @ for another kind of name.
    return re.escape(text).replace("\\-", "-").replace("@", ".")


def scripts(case: Case) -> list[tuple[str, str]]:
    """Return name and text of the scripts of a case's sides, and of what prepares them; none where no job was made."""
    found = filter(None, map(SCRIPT.fullmatch, case.commands))
    return [(match["name"], match["text"]) for match in found]
