"""Define the options of the command line other than ReFrame's, and print its errors in one line each.

An option has the same meaning in all commands; containercheck.command.parsers has the options of each command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from containercheck.results.formatting import CommandError


class UsageError(CommandError):
    """The command line, the site file or a directory is wrong, and nothing was done."""

    status = os.EX_USAGE


def positive(text: str) -> float:
    """Return the positive number in a text of the command line.

    :raises argparse.ArgumentTypeError: the text is not a number, or it is not above 0.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


#: For each option the arguments for argparse.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--minutes": {
        "type": positive,
        "metavar": "M",
        "help": (
            "plan the rounds for M minutes, without waits and builds; by default 30 at most, and each check's own time "
            "if jobs wait in a queue"
        ),
    },
    "--node-hours": {
        "type": positive,
        "metavar": "N",
        "help": "use at most N node-hours, measured and without builds: run the cheapest first (a night: the most "
        "important), and name the others",
    },
    "--resume": {
        "dest": "only_open",
        "action": "store_true",
        "help": "run only the open cases of the last session, with its arguments; its rounds count",
    },
    "--estimate": {
        "action": "store_true",
        "help": "print the expected cost of the session, in all and by check; run nothing",
    },
    "--here": {
        "action": "store_true",
        "help": "measure this machine, even if it has a scheduler and no site file names nodes",
    },
    "--full": {"action": "store_true", "help": "run the full axes too: published sizes and longer axes"},
    "--timeout": {"type": positive, "metavar": "M", "help": "stop after M minutes, and keep the results"},
    "--acknowledge": {
        "default": "",
        "metavar": "TEXT",
        "help": "name a change on purpose: earlier nights are not compared with this one and later ones",
    },
    "--html": {
        "type": Path,
        "metavar": "FILE",
        "help": "write a page of it; in report, of the last night and its trends",
    },
    "--image": {
        "metavar": "IMAGE",
        "help": "run the checks named by -n with this image, a path or an address, in place of their own",
    },
    "--run": {"action": "store_true", "help": "also run the checks of the programs in the image"},
    "--night": {"action": "store_true", "help": "explain the last night, not the last session"},
    "--verbose": {"action": "store_true", "help": "also show ReFrame's output, which is in the log in any case"},
    "--table": {"action": "store_true", "help": "end with the table of all metrics, and the images that ran"},
    "--system": {"metavar": "NAME", "help": "name of the system"},
    "--database": {
        "type": Path,
        "metavar": "DB",
        "help": "results database to read (default: that of the site file, else reports/results.db)",
    },
    "--write": {
        "nargs": "?",
        "const": "",
        "metavar": "DIRECTORY",
        "help": "write it into this directory, or into that of the site's extra references",
    },
    "--name": {
        "action": "append",
        "dest": "names",
        "default": [],
        "metavar": "PATTERN",
        "help": "pattern of the checks, as for ReFrame",
    },
}
#: Short forms of options.
SHORT = {"--name": "-n"}
#: ReFrame's argument for --here: its built-in system, which matches every machine.
HERE = "--system=generic"
#: ReFrame's arguments for --full.
FULL = ("-S", "full=yes")
#: Action of ReFrame that prints its configuration. A second action on the command line is an error.
ASKED = "--show-config"


def complaint(output: str) -> str:
    """Return the message of argparse about ReFrame's command line in one line; empty without one.

    :param output: output of ReFrame. The message comes after the usage with dozens of options.
    """
    match = re.match(r"usage: .*?\n\S+: error: (.*)\Z", output.strip(), re.DOTALL)
    message = " ".join(match[1].split()) if match else ""
    if ASKED in message:
        option = message.replace(f"argument {ASKED}: ", "").rpartition(" ")[2].rpartition("/")[2]
        return f"{option} is another action of ReFrame and runs no check: reframe -c checks/ {option}"
    return f"{message}: see --help and reframe --help" if message else ""
