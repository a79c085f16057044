"""Run the program ``containercheck``: its first argument names the command.

Completion in bash and zsh, in the environment: ``eval "$(register-python-argcomplete containercheck)"``.
"""
# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from containercheck.command.parsers import (
    COMMANDS,
    NOT_JUDGED,
    OWN_FAULT,
    RENAMED_COMMANDS,
    Formatter,
    Parser,
    described,
    fill,
)
from containercheck.results.formatting import CommandError, speak_as, type_with

#: Variable with the typed prefix of a script of the checkout: ``ci/``.
TYPED = "CONTAINERCHECK_TYPED"


def parser() -> Parser:
    """Return the parser of all commands, for its help and for completion."""
    main_parser = Parser(
        prog="containercheck",
        usage="containercheck COMMAND [options]",
        description="Does this container run as fast as bare metal, and give the same answers, on this machine, today?",
        epilog="containercheck COMMAND --help shows its options, with examples.\n"
        'Completion in the shell, in the environment: eval "$(register-python-argcomplete containercheck)"',
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    main_parser.add_argument("--version", action="version", version=version(), help="print the version")
    commands = main_parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        fill(commands.add_parser(name, help=command.summary, **described(name)), name)
    return main_parser


def complete() -> None:
    """Complete the command line, if the shell asks for it."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser())


def chosen(argv: Sequence[str]) -> str:
    """Return the command that the first word names.

    :raises SystemExit: it names no command, or is an option such as ``--help``.
    """
    if argv and argv[0] in COMMANDS:
        return argv[0]
    if argv and argv[0] in RENAMED_COMMANDS:
        parser().error(f"{argv[0]} is now {RENAMED_COMMANDS[argv[0]]}")
    parser().parse_args(argv[:1])
    raise AssertionError("argparse exits if the first word is not a command")


def version() -> str:
    """Return the installed version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("containercheck")
    return "not installed: it runs from a checkout"


def run(name: str, argv: Sequence[str], place: Any) -> int:
    """Run a command, print the error that ends it, and return its exit status.

    :param place: the ``Workplace`` of its sessions.
    """
    speak_as(name)
    try:
        return int(importlib.import_module(f"containercheck.command.{name}").main(argv, place))
    except Exception as error:
        status = status_of(error)
        if status == OWN_FAULT:
            traceback.print_exception(error)
            print(f"{name}: error: a fault of containercheck, and no result of the checks: report it", file=sys.stderr)
        elif isinstance(error, BrokenPipeError):
            # The reader of the pipe (head) is gone; the rest of the buffer is dropped.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            print(f"{name}: error: {error}", file=sys.stderr)
        return status


def status_of(error: Exception) -> int:
    """Return the exit status of a command that an exception ended. Errors of a file system are not our faults."""
    if isinstance(error, CommandError):
        return error.status
    return NOT_JUDGED if isinstance(error, OSError) else OWN_FAULT


def main() -> None:
    """Run the command that the command line names."""
    complete()
    argv = sys.argv[1:]
    speak_as("containercheck")
    name = chosen(argv)
    if TYPED in os.environ:
        type_with(os.environ.pop(TYPED))
    # Not at the top, as completion has to be fast and does not need it.
    from containercheck.session.reframe_process import Workplace

    sys.exit(run(name, argv[1:], Workplace()))
