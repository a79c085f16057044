"""The settings of a session or a night from the command line: its own options, and the arguments for ReFrame."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from dataclasses import dataclass

from containercheck.history.nights import ARGUMENTS, CHANGED, NIGHT


@dataclass(frozen=True)
class Settings:
    """Settings of a session.

    :ivar minutes: time for the session; None where none is set.
    :ivar node_hours: budget of all its jobs; None for no limit.
    :ivar estimate: whether to print what it would take, and run nothing.
    :ivar only_open: whether to continue the last session.
    :ivar arguments: all other arguments, which are for ReFrame.
    :ivar verbose: whether ReFrame's output is shown.
    :ivar table: whether the session ends with the table of all metrics.
    """

    minutes: float | None
    only_open: bool
    arguments: tuple[str, ...]
    node_hours: float | None = None
    estimate: bool = False
    verbose: bool = False
    table: bool = False

    @property
    def _variables(self) -> list[tuple[str, str, str]]:
        """Return check, variable and value of each -S; the check is empty for all checks."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("-S", "--setvar", action="append", default=[])
        pairs = (text.partition("=") for text in parser.parse_known_args(self.arguments)[0].setvar)
        return [(*name.rpartition(".")[::2], value) for name, _, value in pairs]

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds that the command line gives to checks, by class; under the empty name for all others."""
        limits = {}
        for check, variable, value in self._variables:
            if variable == "seconds":
                with contextlib.suppress(ValueError):  # ReFrame reports it
                    limits[check] = float(value)
        return limits

    @property
    def fixed(self) -> bool:
        """Whether the command line sets the number of rounds, so that the verdict does not."""
        return any(variable == "rounds" and value != "0" for _, variable, value in self._variables)


@dataclass(frozen=True)
class NightSettings:
    """Settings of a night.

    :ivar timeout: minutes after which the night is stopped; None for never.
    :ivar changed: description of a change on purpose; empty for none.
    :ivar arguments: arguments for ReFrame.
    :ivar verbose: whether ReFrame's output is shown.
    """

    minutes: float | None
    node_hours: float | None
    timeout: float | None
    changed: str
    arguments: tuple[str, ...]
    verbose: bool = False

    @property
    def identity(self) -> str:
        """What identifies the arguments."""
        return hashlib.sha256(json.dumps(self.arguments).encode()).hexdigest()[:12]

    def settings(self, night: str) -> Settings:
        """Return the settings of the night's session; the night's name is stored with its results."""
        # ReFrame's syntax of session extras, and its queries, cannot quote these characters.
        changed = self.changed.translate(str.maketrans(",{}\n", ";() "))
        extras = f"{NIGHT}={night},{ARGUMENTS}={self.identity}" + (f",{CHANGED}={changed}" if changed else "")
        return Settings(self.minutes, False, (*self.arguments, f"--session-extras={extras}"), self.node_hours)
