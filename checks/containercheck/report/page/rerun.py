"""How to repeat a case: the command that selects it, and the commands that its job ran."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from containercheck.results.cases import Asked, Case
from containercheck.results.formatting import typed

#: A comment in a job's script that says what a side runs (containercheck.sides.commands).
RUNS = re.compile(r"# (?P<label>.+?) runs: (?P<text>.*)")
#: Arguments with which the cases of the full axes run.
FULL = ("-S", "full=yes")


def command(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return the command that runs exactly these cases, all of one partition and environment; "" for none.

    ReFrame searches for the expression in the name as it shows it, without the spaces. Configuration files and
    variables are those of the session in which the first of the cases ran.

    :param everything: all cases of the night: the environment is named only where its partition has several.
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
    # Only the value is quoted: a quoted variable name would be taken for a command.
    files = f"RFM_CONFIG_FILES={shlex.quote(':'.join(asked.files))} " if asked.files else ""
    return f"{files}{typed('run')} {shlex.join(words)}"


def _asked(case: Case) -> Asked:
    """Return the request of the last session that ran a case from its beginning, and not to confirm or continue."""
    runs = (case, *reversed(case.earlier))
    return next((run.asked for run in runs if not run.nightly_pass and not run.asked.goes_on), case.asked)


def _escaped(text: str) -> str:
    # ReFrame reads a name with an @ as a test and the number of its variant.
    return re.escape(text).replace("\\-", "-").replace("@", ".")


def scripts(case: Case) -> list[tuple[str, str]]:
    """Return the label of each of a case's sides and the commands that it runs; none without a job."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(RUNS.fullmatch, case.commands)):
        found.setdefault(match["label"], []).append(match["text"])
    return [(label, "\n".join(texts)) for label, texts in found.items()]
