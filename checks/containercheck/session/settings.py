"""What a person asks of ci/run and ci/nightly: their own options, and the arguments that go on to ReFrame."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from containercheck.history.nights import CHANGED, NIGHT
from containercheck.results.formatting import speaker

#: An address with a user or a password (what stands before a digest is neither), or signed by a key in its query.
SECRET_ADDRESS = re.compile(
    r"://[^\s/?#]*@(?!sha256:)|://[^\s?#]*\?[^\s#]*(token|sig|key|auth|pass|cred|secret)[^\s#=]*=", re.IGNORECASE
)
#: Exit statuses of a night.
FINE, REGRESSION, TROUBLE = 0, 1, 2
MEANING = {FINE: "all is fine", REGRESSION: "a regression", TROUBLE: "something could not be measured or run"}


@dataclass(frozen=True)
class Settings:
    """What the person asked for.

    :ivar minutes: for the session; None where nothing was said.
    :ivar node_hours: for all jobs of the session; None for any.
    :ivar estimate: whether to say what it would take, and run nothing.
    :ivar only_open: whether to go on with the last session.
    :ivar arguments: all else, which goes on to ReFrame.
    """

    minutes: float | None
    only_open: bool
    arguments: tuple[str, ...]
    node_hours: float | None = None
    estimate: bool = False

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Settings:
        """Take them from the command line.

        :raises SystemExit: it is wrong, or asks for help.
        """
        parser = argparse.ArgumentParser(
            prog=f"ci/{speaker()}",
            usage="ci/run [--minutes M] [--open] [--estimate] [--node-hours N] [arguments for ReFrame]",
            description="Runs the checks on this machine, and ends with a table.",
            epilog="All else goes on to ReFrame: ci/run -n HPCC -S seconds=120. reframe --help tells what there is.",
            allow_abbrev=False,
        )
        parser.add_argument(
            "--minutes",
            type=positive,
            metavar="M",
            help="end within M minutes, and spend them where most verdicts close; by default 30 at most, and "
            "each check's own time where jobs wait in a queue",
        )
        parser.add_argument(
            "--open",
            dest="only_open",
            action="store_true",
            help="run only what stayed open in the last session, with its arguments; its rounds count",
        )
        parser.add_argument(
            "--estimate", action="store_true", help="say what the session would take, in all and by check; run nothing"
        )
        parser.add_argument(
            "--node-hours",
            type=positive,
            metavar="N",
            help="spend no more than that: run the cheapest first, count what they take, and say what is left out",
        )
        known, rest = parser.parse_known_args(argv)
        refuse_secrets(parser, argv)
        if known.only_open and (known.estimate or known.node_hours):
            parser.error("--open goes on with cases that ran: there is nothing to estimate")
        return cls(known.minutes, known.only_open, tuple(rest), known.node_hours, known.estimate)

    @property
    def _variables(self) -> list[tuple[str, str, str]]:
        """Return the check, or an empty text for all, the variable and the value of each -S."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("-S", "--setvar", action="append", default=[])
        pairs = (text.partition("=") for text in parser.parse_known_args(self.arguments)[0].setvar)
        return [(*name.rpartition(".")[::2], value) for name, _, value in pairs]

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds that the person gives to checks, by class; for all others under the empty name."""
        found = {}
        for check, variable, value in self._variables:
            if variable == "seconds":
                with contextlib.suppress(ValueError):  # ReFrame says so
                    found[check] = float(value)
        return found

    @property
    def fixed(self) -> bool:
        """Whether the number of rounds is the person's, and not the verdict's."""
        return any(variable == "rounds" and value != "0" for _, variable, value in self._variables)


@dataclass(frozen=True)
class NightSettings:
    """What the person asked for.

    :ivar timeout: minutes after which the night is stopped; None for never.
    :ivar changed: what was changed on purpose, if anything was.
    :ivar arguments: those that go on to ReFrame.
    """

    minutes: float | None
    node_hours: float | None
    timeout: float | None
    changed: str
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, argv: Sequence[str]) -> NightSettings:
        """Take it from the command line.

        :raises SystemExit: it is wrong, or asks for help.
        """
        parser = argparse.ArgumentParser(
            prog="ci/nightly",
            usage="ci/nightly [--minutes M] [--node-hours N] [--timeout M] [--changed TEXT] [arguments for ReFrame]",
            description="Runs the checks of a night, and tells what moved since earlier nights.",
            epilog="Exit status " + ", ".join(f"{status}: {meaning}" for status, meaning in MEANING.items()) + ".",
            allow_abbrev=False,
        )
        parser.add_argument(
            "--minutes", type=positive, metavar="M", help="as in ci/run; what does not fit runs tomorrow"
        )
        parser.add_argument(
            "--node-hours",
            type=positive,
            metavar="N",
            help="spend no more than that, on what matters most: never run, failed last time, longest ago",
        )
        parser.add_argument(
            "--timeout", type=positive, metavar="M", help="stop after M minutes, and keep what was measured"
        )
        parser.add_argument(
            "--changed",
            default="",
            metavar="TEXT",
            help="what was changed on purpose: earlier nights are no measure for this one and later ones",
        )
        known, rest = parser.parse_known_args(argv)
        refuse_secrets(parser, argv)
        return cls(known.minutes, known.node_hours, known.timeout, known.changed, tuple(rest))

    def settings(self, night: str) -> Settings:
        """Return those of the night's session, whose name is stored with its results."""
        # ReFrame's own syntax, and its queries, have no other way to say these.
        changed = self.changed.translate(str.maketrans(",{}\n", ";() "))
        extras = f"{NIGHT}={night}" + (f",{CHANGED}={changed}" if changed else "")
        return Settings(self.minutes, False, (*self.arguments, f"--session-extras={extras}"), self.node_hours)


def refuse_secrets(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Refuse an address with a password or a key: ReFrame writes its command line into reports and database.

    :raises SystemExit: there is one.
    """
    if any(map(SECRET_ADDRESS.search, argv)):
        parser.error(
            "an address on the command line has a user, a password or a key in it, and would be told in all reports: "
            "put it into the site's file (extras, inputs or images), which nobody else can read"
        )


def positive(text: str) -> float:
    """Return a number of the command line.

    :raises argparse.ArgumentTypeError: it is none, or not above 0.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
