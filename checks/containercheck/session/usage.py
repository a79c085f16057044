"""What is wrong with a command line, in one line: ReFrame would print all of its options."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: An option in a usage or a help text, and how ReFrame (argparse) begins what it says of a wrong one.
_OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")
_COMPLAINT = re.compile(r"^usage: .*?\n\S+: error: (.*)\Z", re.DOTALL)
#: What argparse says of options that nobody knows, and of an action beside the one with which ReFrame was asked.
_UNKNOWN = "unrecognized arguments: "
_ACTION, _ASKED = re.compile(r"argument (\S+): not allowed with argument (\S+)"), "--show-config"


class UsageError(Exception):
    """The command line is wrong; the message says how, in one line."""


def complaint(said: str, own: Iterable[str]) -> str:
    """Return what ReFrame complains about in a command line, in one line; empty where it does not.

    :param said: all that it printed.
    :param own: the options of our own commands, which a person may have meant.
    """
    said = said.strip()
    found = _COMPLAINT.match(said)
    if not found:
        return ""
    why = " ".join(found[1].split())
    if why.startswith(_UNKNOWN):
        # What follows an option is its value, mostly.
        unknown = why[len(_UNKNOWN) :].split()
        option = next((word for word in unknown if word.startswith("-")), unknown[0])
        meant = _meant(option, said[: -len(found[1])], own)
        return f"unknown {'option' if option.startswith('-') else 'argument'} {option}{meant}"
    action = _ACTION.fullmatch(why)
    if action:
        which = next((one for one in action.groups() if one != _ASKED), _ASKED)
        return f"{which} is an action of its own, beside which no check runs: reframe -c checks/ with it"
    return f"{why}: see reframe --help"


def _meant(option: str, usage: str, own: Iterable[str]) -> str:
    """Return which known option an unknown one resembles."""
    known = {*own, *_OPTION.findall(usage)}
    near = difflib.get_close_matches(option.partition("=")[0], sorted(known), n=1, cutoff=0.6)
    return f": did you mean {near[0]}?" if near else ": see --help, and reframe --help for those that go on to ReFrame"
