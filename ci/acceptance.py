"""Whether a container runtime may take the place of another one; called by ci/acceptance (DESIGN 11).

Exit status 0 when it is accepted, 1 when it is rejected or something failed, 2 when that is not decided, and for a
wrong command line.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import sessions
from processes import Workplace
from report import policy, table
from report.cases import Case
from report.text import columns, say

#: Commands of runtimes that a module may bring.
COMMANDS = ("apptainer", "singularity")
#: Verdicts on a case, and on the whole; the worst comes first.
REJECTED, UNDECIDED, ACCEPTED = "rejected", "undecided", "accepted"
STATUS = {ACCEPTED: 0, REJECTED: 1, UNDECIDED: 2}


class UnknownRuntime(Exception):
    """A runtime cannot be found; the message says what was looked for."""


def resolved(word: str) -> str:
    """Return the path of the runtime that a word names: a command, a path, or a module.

    :raises UnknownRuntime: there is none.
    """
    found = shutil.which(word)
    if found and not re.search("[,:]", found):
        return str(Path(found).absolute())
    if re.fullmatch(r"[\w.+/-]+", word):
        look = " || ".join(f"command -v {command}" for command in COMMANDS)
        script = f"module load {shlex.quote(word)} >/dev/null 2>&1 && {{ {look}; }}"
        said = subprocess.run(["bash", "-lc", script], capture_output=True, text=True, timeout=60)
        if said.returncode == 0:
            return said.stdout.strip()
    raise UnknownRuntime(f"no container runtime {word}: neither a command, nor a path, nor a module that brings one")


def version(path: str) -> str:
    """Return what a runtime says of its version, in one line."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "which does not tell its version"
    return " ".join(said.split()) or "which does not tell its version"


def verdict(case: Case) -> str:
    """Return what is to be said of a case."""
    if policy.failure(case):
        return REJECTED
    verdicts = {row.get("verdict") for row in case.rows}
    return ACCEPTED if verdicts == {"pass"} else UNDECIDED


def conclude(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the table, the verdict on each case and the one on the whole, and return the exit status."""
    ran = policy.ran(cases)
    print("\n".join(["", *table.lines(cases)]), flush=True)
    for problem in [*problems, *([] if ran else ["no check was run"])]:
        say(f"error: {problem}")
    said = [(case, verdict(case)) for case in ran]
    rows = [("application", "variant", "nodes", "verdict", "because")]
    rows += [(case.label, case.variant, str(case.nodes), word, because(case, word)) for case, word in said]
    print("\n".join(["", *columns(rows)]), flush=True)
    words = {word for _, word in said}
    whole = next((word for word in (REJECTED, UNDECIDED) if word in words), ACCEPTED)
    if whole == ACCEPTED and (problems or not ran):
        whole = UNDECIDED
    counts = ", ".join(f"{sum(word == one for _, word in said)} {one}" for one in STATUS)
    more = ": not accepted; the same with --open goes on with what is open" if whole == UNDECIDED else ""
    say(f"{whole}: {counts}{more}")
    return STATUS[whole]


def because(case: Case, word: str) -> str:
    """Return what a verdict on a case rests on."""
    run = policy.failure(case)
    if run:
        return "; ".join(run.reason.splitlines()) or run.result
    if word == UNDECIDED:
        left = [row["figure"] for row in case.rows if row.get("verdict") != "pass"]
        return f"open: {', '.join(left)}" if case.rows else "nothing was compared"
    return ""


def main() -> None:
    """Run one session that compares the runtimes of the command line."""
    parser = argparse.ArgumentParser(
        prog="ci/acceptance",
        usage="ci/acceptance OLD NEW... [arguments of ci/run]",
        description="Says whether a container runtime may take the place of another one.",
        allow_abbrev=False,
    )
    parser.add_argument("runtimes", nargs="+", help="commands, paths or modules; the first is the measure")
    words = list(sys.argv[1:])
    options = [place for place, word in enumerate(words) if word.startswith("-") and word not in ("-h", "--help")]
    end = min(options, default=len(words))
    known = parser.parse_args(words[:end])
    if len(known.runtimes) < 2:
        parser.error("it takes two: OLD and NEW")
    try:
        paths = [resolved(word) for word in known.runtimes]
    except UnknownRuntime as error:
        parser.error(str(error))
    names = ["old", "new"] if len(paths) == 2 else ["old", *(f"new{number}" for number in range(1, len(paths)))]
    for name, path in zip(names, paths):
        say(f"{name}: {path}, {version(path)}")
    pairs = ",".join(f"{name}:{path}" for name, path in zip(names, paths))
    chosen = ["-S", f"runtimes={pairs}", "--exclude", "%variant=bare"]
    sys.exit(sessions.session([*chosen, *words[end:]], Workplace(), conclude))


if __name__ == "__main__":
    main()
