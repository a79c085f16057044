"""What a person asks of a session or of a night: their own options, and the arguments that go on to ReFrame."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import dataclass

from containercheck.history.nights import CHANGED, NIGHT


@dataclass(frozen=True)
class Settings:
    """What the person asked for.

    :ivar minutes: for the session; None where nothing was said.
    :ivar node_hours: for all jobs of the session; None for any.
    :ivar estimate: whether to say what it would take, and run nothing.
    :ivar only_open: whether to go on with the last session.
    :ivar arguments: all else, which goes on to ReFrame.
    :ivar verbose: whether what ReFrame prints is shown.
    :ivar figures: whether all figures are told at the end.
    """

    minutes: float | None
    only_open: bool
    arguments: tuple[str, ...]
    node_hours: float | None = None
    estimate: bool = False
    verbose: bool = False
    figures: bool = False

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

    def settings(self, night: str) -> Settings:
        """Return those of the night's session, whose name is stored with its results."""
        # ReFrame's own syntax, and its queries, have no other way to say these.
        changed = self.changed.translate(str.maketrans(",{}\n", ";() "))
        extras = f"{NIGHT}={night}" + (f",{CHANGED}={changed}" if changed else "")
        return Settings(self.minutes, False, (*self.arguments, f"--session-extras={extras}"), self.node_hours)
