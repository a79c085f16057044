"""How to do it again: the command that selects a case, and the scripts that its job ran."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from containercheck.results.cases import Case
from containercheck.results.formatting import typed
from containercheck.results.request import Asked

#: How a job writes a script for one of its sides: containercheck.sides.commands does.
SCRIPT = re.compile(r"cat >(?P<name>[^.\s]+\.sh) <<'END'\n(?P<text>.*)\nEND", re.DOTALL)
#: What the cases of the full axes run with.
FULL = ("-S", "full=yes")


def command(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return the command that runs exactly these cases, which have one partition and environment; "" for none.

    ReFrame searches for the expression in the name as it shows it, without the spaces. Configuration files and
    variables are those of the session that the first of the cases was run in.

    :param everything: all cases of the night: where a partition has one environment, it need not be told.
    """
    if not cases:
        return ""
    system, partition, environ, _ = cases[0].key
    selection = "|".join(f"^{_escaped(case.name.replace(' ', ''))}$" for case in cases)
    words = [f"--system={system}:{partition}"] if system else []
    if any(case.key[:2] == (system, partition) and case.key[2] != environ for case in everything):
        words += ["-p", f"^{_escaped(environ)}$"]
    asked = _asked(cases[0])
    words += ["-n", selection, *asked.options]
    if any("full" in case.tags for case in cases) and FULL[1] not in asked.options:
        words += FULL
    # What stands before the command's name is quoted by itself: its own name must not be.
    files = f"RFM_CONFIG_FILES={shlex.quote(':'.join(asked.files))} " if asked.files else ""
    return f"{files}{typed('run')} {shlex.join(words)}"


def _asked(case: Case) -> Asked:
    """Return what the last session was asked for that ran a case from its beginning, of its own accord."""
    runs = (case, *reversed(case.earlier))
    return next((run.asked for run in runs if not run.nightly_pass and not run.asked.goes_on), case.asked)


def _escaped(text: str) -> str:
    # ReFrame takes a name with an @ for another kind of name.
    return re.escape(text).replace("\\-", "-").replace("@", ".")


def scripts(case: Case) -> list[tuple[str, str]]:
    """Return name and text of the scripts of a case's sides, and of what prepares them; none where no job was made."""
    found = filter(None, map(SCRIPT.fullmatch, case.commands))
    return [(match["name"], match["text"]) for match in found]
