"""Read ReFrame's command line, because ReFrame does not tell a check what was selected or set."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from reframe.core.runtime import runtime
from reframe.utility import osext

#: Letters of options without a value, which may be combined in one word.
_LETTERS = "RVhlqrv"


@dataclass(frozen=True)
class CommandLine:
    """The options that the library reads.

    :ivar assignments: the value of each ``-S``.
    :ivar names: patterns of ``-n``, of selected checks.
    :ivar excluded_names: patterns of ``-x``.
    :ivar tags: patterns of ``-t``.
    :ivar excluded_tags: patterns of ``-T``.
    :ivar restores: whether the cases come from a report (``--restore-session``).
    """

    assignments: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    excluded_tags: tuple[str, ...] = ()
    restores: bool = False

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> CommandLine:
        """Read a command line, with the options of the mode that it names.

        :param argv: words of the command line; ReFrame's own by default.
        """
        words = list(sys.argv[1:] if argv is None else argv)
        given = _parser().parse_known_args(words)[0]
        if given.mode:
            # ReFrame reads the mode's options first, and splits them like a shell.
            options = runtime().get_option(f"modes/@{given.mode}/options") or []
            mode_words = [word for option in options for word in shlex.split(osext.expandvars(option))]
            given = _parser().parse_known_args([*mode_words, *words])[0]
        return cls(
            tuple(given.setvar),
            tuple(given.name),
            tuple(given.exclude),
            tuple(given.tag),
            tuple(given.exclude_tag),
            given.restore_session is not None,
        )


def _parser() -> argparse.ArgumentParser:
    """Return a parser of these options that agrees with ReFrame's."""
    parser = argparse.ArgumentParser(add_help=False)
    for short, long in (
        ("-S", "--setvar"),
        ("-n", "--name"),
        ("-x", "--exclude"),
        ("-t", "--tag"),
        ("-T", "--exclude-tag"),
    ):
        parser.add_argument(short, long, action="append", default=[])
    parser.add_argument("--mode")
    parser.add_argument("--restore-session", nargs="?", const="")
    for letter in _LETTERS:
        parser.add_argument(f"-{letter}", action="store_true")
    return parser
