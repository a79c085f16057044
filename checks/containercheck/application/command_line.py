"""Read ReFrame's command line, and find the checks that it loaded: ReFrame hands neither to a check."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from reframe.core.pipeline import RegressionTest
from reframe.core.runtime import runtime
from reframe.frontend import filters
from reframe.utility import osext

#: Letters of options without a value, which may be combined in one word.
_LETTERS = "RVhlqrv"


@dataclass(frozen=True)
class CommandLine:
    """The options of ReFrame that the library reads.

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

    @property
    def selects(self) -> bool:
        """Whether cases are selected by name or tag."""
        return bool(self.names or self.excluded_names or self.tags or self.excluded_tags)

    def selected(self, checks: Iterable[Any]) -> list[Any]:
        """Return the cases that ReFrame would select by name and tag."""
        wanted = [filters.have_not_name(name) for name in self.excluded_names]
        wanted += [filters.have_any_name(self.names)] if self.names else []
        wanted += [filters.have_not_tag(tag) for tag in self.excluded_tags]
        wanted += [filters.have_tag(tag) for tag in self.tags]
        return [check for check in checks if all(matches(SimpleNamespace(check=check)) for matches in wanted)]


def _parser() -> argparse.ArgumentParser:
    """Return a parser of these options that agrees with ReFrame's."""
    parser = argparse.ArgumentParser(add_help=False)
    for short, long in zip("SnxtT", ("setvar", "name", "exclude", "tag", "exclude-tag")):
        parser.add_argument(f"-{short}", f"--{long}", action="append", default=[])
    parser.add_argument("--mode")
    parser.add_argument("--restore-session", nargs="?", const="")
    for letter in _LETTERS:
        parser.add_argument(f"-{letter}", action="store_true")
    return parser


def loaded_classes(of: Any = RegressionTest) -> dict[str, Any]:
    """Return all loaded classes of checks by name, base classes included."""
    classes: dict[str, Any] = {}
    for check in of.__subclasses__():
        classes.update({check.__name__: check, **loaded_classes(check)})
    return classes
