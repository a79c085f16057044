"""The command-line options beside those of ReFrame: the same option means the same in all commands."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    :ivar flags: its forms; the last is its name.
    :ivar facts: further arguments for argparse.
    """

    flags: tuple[str, ...]
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the long form of the option."""
        return self.flags[-1]

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the option to the parser of a command."""
        parser.add_argument(*self.flags, **self.facts)


def positive(text: str) -> float:
    """Return the positive number in a text of the command line.

    :raises argparse.ArgumentTypeError: the text is no number, or it is not above 0.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


def _option(*flags: str, **facts: Any) -> Option:
    return Option(flags, facts)


#: All options by name; containercheck.command.parsers has those of each command.
OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        _option(
            "--minutes",
            type=positive,
            metavar="M",
            help="end within M minutes, and spend them where most verdicts close; by default 30 at most, and each "
            "check's own time where jobs wait in a queue",
        ),
        _option(
            "--node-hours",
            type=positive,
            metavar="N",
            help="use at most so many node-hours: run the cheapest first (a night: what matters most), count them, "
            "and say what is left out",
        ),
        _option(
            "--open",
            dest="only_open",
            action="store_true",
            help="run only what stayed open in the last session, with its arguments; its rounds count",
        ),
        _option(
            "--estimate",
            action="store_true",
            help="say what the session would take, in all and by check; run nothing",
        ),
        _option(
            "--here",
            action="store_true",
            help="measure this machine, also where it has a scheduler and no site file says which nodes to measure",
        ),
        _option("--timeout", type=positive, metavar="M", help="stop after M minutes, and keep what was measured"),
        _option(
            "--changed",
            default="",
            metavar="TEXT",
            help="what was changed on purpose: earlier nights are no measure for this one and later ones",
        ),
        _option(
            "--built-by-each",
            action="store_true",
            help="each runtime runs an image that it built; else all run the same",
        ),
        _option(
            "--html",
            type=Path,
            metavar="FILE",
            help="write the page of the last night, with its trends",
        ),
        _option(
            "--image",
            metavar="IMAGE",
            help="run the checks that -n names with this image, a path or an address, and not with their own",
        ),
        _option("--run", action="store_true", help="run the checks too whose program it has"),
        _option("--markdown", action="store_true", help="print it as a table in Markdown"),
        _option(
            "--between",
            nargs=2,
            metavar=("A", "B"),
            help="compare what the same cases saw and ran: in two reports of ReFrame, or for two partitions, runtimes, "
            "images or variants of the last session; nothing need have failed",
        ),
        _option("--night", action="store_true", help="of the last night in the results database, not the last session"),
        _option(
            "--try",
            dest="tries",
            action="store_true",
            help="run the case once more, with all further remedies that may prove a cause",
        ),
        _option("--verbose", action="store_true", help="show what ReFrame prints too, which is in the log in any case"),
        _option("--figures", action="store_true", help="end with the table of all figures, and the images that ran"),
        _option(
            "--scheduler",
            choices=("slurm", "pbs", "sge", "flux"),
            help="the one to ask, where several are here; by default the first of these that answers",
        ),
        _option("--no-jobs", action="store_true", help="ask no node by a job"),
        _option("--system", metavar="NAME", help="name of the system"),
        _option("--json", action="store_true", help="print it as one JSON object, for programs and reports of bugs"),
        _option(
            "--database",
            type=Path,
            metavar="DB",
            help="results database that is read (default: the one that the site's file names, else reports/results.db)",
        ),
        _option(
            "--period",
            default="now-30d:now",
            help="when it ran, as ReFrame says it (default: %(default)s)",
        ),
        _option("--nights", type=int, metavar="N", help="fewest nights of a reference (default: 10)"),
        _option(
            "--write",
            nargs="?",
            const="",
            metavar="DIRECTORY",
            help="write it, into the directory that the site names (its extras, references), or into this one",
        ),
        _option(
            "-n",
            "--name",
            action="append",
            dest="names",
            default=[],
            metavar="PATTERN",
            help="of which checks, as ReFrame",
        ),
        _option(
            "-E",
            "--filter-expr",
            metavar="EXPR",
            help="of which, in Python; job_nodelist is a list of names",
        ),
    )
}
#: Options that ReFrame has too, with the same meaning.
REFRAMES = ("--name", "--filter-expr", "--verbose", "--system")
#: How ReFrame is told --here: this is its own system, which every machine is.
HERE = "--system=generic"
#: Options that ReFrame does not know.
OWN = tuple(name for name in OPTIONS if name not in REFRAMES)
