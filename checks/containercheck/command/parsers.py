"""Define the commands with their purpose, options and exit statuses, and the texts of their ``--help``.

This module imports little of the library, because completion in the shell loads it at every press of the key.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from containercheck.results.formatting import speaker, typed
from containercheck.session.usage import FULL, HERE, OPTIONS, SHORT

#: Exit statuses of all commands; the last two are EX_USAGE and EX_SOFTWARE of sysexits.h.
FINE, BROKEN, NOT_JUDGED, WRONG_USAGE, OWN_FAULT = 0, 1, 2, 64, 70
#: Meaning of each exit status; the help of a command has its own meanings.
STATUSES: Mapping[int, str] = {
    FINE: "all is fine",
    BROKEN: "something is slower than accepted, or broken",
    NOT_JUDGED: "something could not be judged",
    WRONG_USAGE: "nothing was done: a wrong command line, system or directory, or another session here",
    OWN_FAULT: "a fault of containercheck itself, not a result",
}
#: Commands and options of earlier versions, and the present words for them.
RENAMED_COMMANDS: Mapping[str, str] = {"estimate": "run --estimate"}
RENAMED_OPTIONS: Mapping[str, str] = {
    "--open": "--resume",
    "--changed": "--acknowledge",
    "--figures": "--table",
    "--between": "the command compare",
}
#: An address with a user or a password (but not with an @ before a digest), or with a key in its query.
SECRET_ADDRESS = re.compile(
    r"://[^\s/?#]*@(?!sha256:)|://[^\s?#]*\?[^\s#]*(token|sig|key|auth|pass|cred|secret)[^\s#=]*=", re.IGNORECASE
)
#: Options of ReFrame for a path.
_PATHS = ("-C", "--config-file", "-c", "--checkpath")
#: Note in the help on arguments that are not options of the command.
_REST = "Other options are passed to ReFrame, such as -n HPCC or -S seconds=60: see reframe --help."


@dataclass(frozen=True)
class Command:
    """A command of the library.

    :ivar summary: its purpose in a sentence.
    :ivar options: names of its options.
    :ivar examples: arguments, and their purpose.
    :ivar statuses: exit statuses, and their meanings.
    :ivar words: its positional arguments, as in the usage; empty for none.
    :ivar facts: argparse's arguments for the positional arguments.
    :ivar note: further text of its help.
    :ivar rest: note on all other arguments; empty if there are no others.
    """

    summary: str
    options: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]
    statuses: Mapping[int, str]
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    rest: str = _REST


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "Runs the checks, and prints a line for each case, the failures and the open verdicts.",
        ("--image", "--minutes", "--node-hours", "--resume", "--estimate", "--full", "--here", "--table", "--verbose"),
        (
            ("", "all checks, in half an hour at most"),
            ("--minutes 90", "the same in 90 minutes"),
            ("-S seconds=60", "all checks, each for a minute at most"),
            ("--resume", "the open cases of the last session; their rounds count"),
            ("-n HPCC -S rounds=20", "one of them, with 20 rounds"),
            ("--image my.sif -n '^GROMACS%'", "one of them, with an image of your own"),
        ),
        {
            0: "all is fine",
            1: "something failed or could not be run",
            2: "something may be too slow or too fast, or was measured before and not this time",
        },
        note="Images and programs are built on first use, and never during a measurement on this machine.",
    ),
    "doctor": Command(
        "Lists the facts of this system, the checks that will run, and the lacks of the others.",
        (),
        (
            ("", "this machine, or a node of each partition of the site's file"),
            ("-C site.py", "the nodes of another site file"),
            ("-n GROMACS", "the lacks of one check"),
        ),
        {0: "containers can be compared with bare metal here", 2: "they cannot, or nothing could be asked"},
        note="It changes nothing. If jobs wait in a queue, a job of seconds asks a node of each partition.",
    ),
    "list": Command(
        "Lists the checks with their variants, node counts, tags and maintainers.",
        ("--full",),
        (("", "all checks"), ("-t smoke", "those with a tag"), ("--full -n GROMACS", "one with its full axes")),
        {0: "they are listed", 2: "no check is selected, or one does not load"},
    ),
    "site": Command(
        "Writes a first site file from the tables of the scheduler, for you to complete.",
        ("--system",),
        (
            ("", "print it"),
            ("site.py --system volta", "write it for that system"),
        ),
        {0: "it is printed or written"},
        words="[FILE]",
        note="It asks Slurm, PBS or Grid Engine. Container runtimes and MPI are those of this host.",
        facts={"dest": "file", "nargs": "?", "type": Path, "metavar": "FILE", "help": "path of the site file"},
        rest="",
    ),
    "image": Command(
        "Checks whether an image is fit for this machine: architecture, MPI, launcher, environment, start.",
        ("--run", "--name", "--here"),
        (
            ("my.sif", "a file, or an unpacked image"),
            ("my.sif --run", "also compare the application in it with bare"),
            ("my.sif -n '^GROMACS%'", "the same with a check that you name"),
            ("docker://registry.example.org/code@sha256:...", "one in a registry"),
        ),
        {
            0: "it is fit",
            1: "it is not fit: no container starts, something is missing, or a check failed",
            2: "there is no such image, or no runtime",
        },
        words="IMAGE",
        facts={"dest": "image", "metavar": "IMAGE", "help": "path or address of the image"},
        note="With --run or -n, a job starts ranks of the image's MPI, and explains a slow or broken case.",
        rest="",
    ),
    "images": Command(
        "Builds the images of the selected checks once, pushes them to the site's registry, or lists them.",
        ("--full", "--here"),
        (
            ("list", "key, digest and size of each image, and if cache and registry have it"),
            ("build", "build or pull the images that the cache lacks, and the software of their checks"),
            ("push", "the same; then copy them to the registry, and print the site file's piece that names them"),
            ("build -n '^HPCC%' -S release=trixie", "those of one check, on another release of Debian"),
        ),
        {
            0: "all is done",
            1: "an image cannot be built, signed or pushed",
            2: "no selected check needs an image, or the registry does not answer",
        },
        words="ACTION",
        facts={
            "dest": "action",
            "choices": ("build", "push", "list"),
            "metavar": "ACTION",
            "help": "build, push or list",
        },
        note="The site's extras name registry and key: image_registry, image_key. Nothing is run or measured.",
    ),
    "nightly": Command(
        "Runs the checks of a night, and reports changes since earlier nights.",
        ("--minutes", "--node-hours", "--timeout", "--acknowledge", "--full", "--here", "--verbose"),
        (
            ("", "half an hour at most, or each check's own time in a queue"),
            ("--minutes 240", "in four hours; the rest runs tomorrow"),
            ("--node-hours 20", "the most important first: never run, failed last time, longest ago"),
            ("--timeout 360", "stop after 360 minutes, and keep the results"),
            ("--acknowledge 'new nodes'", "a change on purpose: earlier nights are not compared any more"),
        ),
        {0: "all is fine", 1: "a regression", 2: "something could not be measured or run"},
    ),
    "nodes": Command(
        "Compares each node with its peers by short jobs, bare and in containers, and names the bad ones.",
        ("--estimate", "--verbose"),
        (
            ("", "all available nodes of the site's partitions"),
            ("--estimate", "the node-hours, before anything runs"),
            ("-n '^DGEMM%'", "by a check that you name"),
            ("--distribute=all --nodelist=node[1-8]", "other nodes, in ReFrame's notation"),
        ),
        {0: "no node is worse", 1: "a node is worse than its peers, or failed", 2: "something could not be judged"},
        note="A partition needs six nodes. Each check is a job of a minute or two on each node.",
    ),
    "acceptance": Command(
        "Decides if a container runtime or an image may replace another one, or compares several.",
        ("--minutes", "--node-hours", "--resume", "--estimate", "--full", "--here", "--verbose"),
        (
            ("/opt/1.3/bin/apptainer apptainer -n 'StartUp|PingPong'", "two runtimes, with these checks"),
            ("apptainer/1.3.6 apptainer/1.4.5 --minutes 90", "two modules, with all checks"),
            ("old.sif new.sif -n GROMACS", "images of one application"),
            ("apptainer podman charliecloud", "runtimes of several kinds, each against bare"),
            ("apptainer apptainer+unpacked", "two ways to run an image: as a file, as a directory"),
        ),
        {0: "accepted", 1: "rejected", 2: "undecided, and so not accepted"},
        words="OLD NEW...",
        facts={
            "dest": "candidates",
            "nargs": "+",
            "metavar": "CANDIDATE",
            "help": "commands, paths or modules of runtimes, or images: OLD first, then those to judge against it",
        },
        note="Bare, OLD and NEW take turns in one job, with the same image file.",
    ),
    "references": Command(
        "Proposes references from ReFrame's results database, as a diff to review.",
        ("--name", "--database", "--write"),
        (
            ("", "the bare values of all nights of the last 90 days on this system"),
            ("-n HPCC", "one check"),
            ("--write", "write it too, into the directory that the site names"),
            ("--write checks/references", "or into another one"),
        ),
        {0: "there is a diff, or everything is in force already", 2: "nothing can be proposed"},
        rest="Other options are passed to ReFrame: -C and --system choose the system.",
    ),
    "explain": Command(
        "Explains a case that failed: likely causes, tried remedies, and their results.",
        ("--night",),
        (
            ("HPCC", "the cases of the last session with this in their name"),
            ("HPCC --night", "the same of the last night"),
        ),
        {0: "the explanation is printed", 2: "there is no such case"},
        words="CASE",
        facts={"dest": "case", "metavar": "CASE", "help": "a part of a case's name"},
        rest="",
    ),
    "compare": Command(
        "Compares two sessions, hosts, sites or months: overheads, bare values, recorded differences.",
        ("--html", "--database"),
        (
            ("old.json new.json", "the reports of two sessions or hosts"),
            ("old.json new.json --html page.html", "the same, and a page of it"),
            ("here.jsonl there.db", "two sites, by exported lines and a results database"),
            ("2026-10 2026-11", "two months, days or nights of the results database"),
        ),
        {0: "no overhead is larger in B", 1: "an overhead is larger in B", 2: "there is nothing to compare"},
        words="A B",
        facts={"dest": "both", "nargs": 2, "metavar": "SESSION", "help": "A, and then B, which is judged"},
        note="The last run of each case in a month counts. Intervals decide if an overhead changed.",
        rest="",
    ),
    "report": Command(
        "Prints the table of a session, or writes the page of the nights.",
        ("--html", "--database"),
        (
            ("", "the table of the last session here"),
            ("run-report.json repeat-report.json", "the table of these reports; the last run of a case counts"),
            ("--html night.html", "the page of the last night in the results database"),
        ),
        {
            0: "it is printed or written",
            1: "something in the table failed",
            2: "nothing was run, or the page cannot be made",
        },
        words="[REPORT...]",
        facts={
            "dest": "reports",
            "nargs": "*",
            "type": Path,
            "metavar": "REPORT",
            "help": "a JSON report of ReFrame (default: that of the last session here)",
        },
        rest="",
    ),
}


#: Keeps the lines of examples, and uses 120 columns for options.
Formatter = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=28, width=120)


class Parser(argparse.ArgumentParser):
    """A parser that prints an error in one line, with the typed command, and exits with the status for wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Print an error, and exit.

        :raises SystemExit: always.
        """
        self.exit(WRONG_USAGE, f"{speaker()}: error: {message}\n")


def described(name: str) -> dict[str, Any]:
    """Return the arguments for the argparse parser of a command."""
    command = COMMANDS[name]
    width = max(len(words) for words, _ in command.examples)
    examples = [f"  {typed(name)} {words:{width}}   {purpose}" for words, purpose in command.examples]
    statuses = [*command.statuses.items(), *((status, STATUSES[status]) for status in (WRONG_USAGE, OWN_FAULT))]
    paragraphs = [
        "\n".join(["examples:", *examples]),
        "\n".join(filter(None, [command.note, command.rest])),
        "\n".join(["exit status:", *(f"  {status:<2}   {meaning}" for status, meaning in statuses)]),
    ]
    words = [typed(name), command.words, "[options]", "[arguments for ReFrame]" if command.rest else ""]
    return {
        "prog": typed(name),
        "usage": " ".join(filter(None, words)),
        "description": command.summary,
        "epilog": "\n\n".join(filter(None, paragraphs)),
        "formatter_class": Formatter,
        "allow_abbrev": False,
    }


def fill(parser: argparse.ArgumentParser, name: str, words: bool = True) -> None:
    """Add the options of a command to a parser.

    :param words: whether to add the command's positional arguments too.
    """
    command = COMMANDS[name]
    if words and command.facts:
        parser.add_argument(**command.facts)
    for option in command.options:
        flags = [SHORT[option], option] if option in SHORT else [option]
        parser.add_argument(*flags, **OPTIONS[option])


def parser(name: str, words: bool = True) -> Parser:
    """Return the parser of one command.

    :param words: as in :func:`fill`.
    """
    command_parser = Parser(**described(name))
    fill(command_parser, name, words)
    return command_parser


def parsed(name: str, argv: Sequence[str], words: bool = True) -> tuple[argparse.Namespace, list[str], Parser]:
    """Return the parsed options of a command line, the arguments for ReFrame, and the parser.

    :param words: as in :func:`fill`.
    :raises SystemExit: the command line is wrong, or asks for help.
    """
    command_parser = parser(name, words)
    for option in (word.partition("=")[0] for word in argv):
        if option in RENAMED_OPTIONS:
            command_parser.error(f"{option} is now {RENAMED_OPTIONS[option]}")
    if not COMMANDS[name].rest:
        return command_parser.parse_args(argv), [], command_parser
    options, rest = command_parser.parse_known_args(argv)
    refuse_secrets(command_parser, argv)
    rest = _from_here(rest)
    rest = [HERE, *rest] if vars(options).get("here") else rest
    rest = [*FULL, *rest] if vars(options).get("full") else rest
    return options, rest, command_parser


def _from_here(words: Sequence[str]) -> list[str]:
    """Return ReFrame's arguments, with absolute paths for files that exist: ReFrame runs in another directory."""
    found = []
    for before, word in zip(["", *words], words):
        option, equals, path = word.partition("=") if "=" in word else (before, "", word)
        is_path = option in _PATHS and os.path.exists(path)
        found.append(f"{option * bool(equals)}{equals}{os.path.abspath(path)}" if is_path else word)
    return found


def refuse_secrets(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Refuse an address with a password or a key, because ReFrame writes its command line into reports and database.

    :raises SystemExit: the command line has such an address.
    """
    if any(map(SECRET_ADDRESS.search, argv)):
        parser.error(
            "an address on the command line has a user, a password or a key in it, and would be in all reports: "
            "put it into the site file (extras, software or images), and let only yourself read that file"
        )
