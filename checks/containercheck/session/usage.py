"""Report errors in a command line in one line: ReFrame would print all of its options."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: An option in a usage or a help text, and the form of argparse's error messages.
_OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")
_COMPLAINT = re.compile(r"^usage: .*?\n\S+: error: (.*)\Z", re.DOTALL)
#: Argparse's messages on unknown options, and on an action beside the one with which ReFrame was asked.
_UNKNOWN = "unrecognized arguments: "
_ACTION, ASKED = re.compile(r"argument (\S+): not allowed with argument (\S+)"), "--show-config"


class UsageError(Exception):
    """The command line is wrong; the message says how, in one line."""


def complaint(output: str, own: Iterable[str]) -> str:
    """Return ReFrame's error message on a command line, in one line; empty without one.

    :param output: all that ReFrame printed.
    :param own: options of this library's commands, which may have been meant.
    """
    output = output.strip()
    match = _COMPLAINT.match(output)
    if not match:
        return ""
    why = " ".join(match[1].split())
    if why.startswith(_UNKNOWN):
        # The word after an option is mostly its value.
        unknown = why[len(_UNKNOWN) :].split()
        option = next((word for word in unknown if word.startswith("-")), unknown[0])
        meant = _meant(option, output[: -len(match[1])], own)
        return f"unknown {'option' if option.startswith('-') else 'argument'} {option}{meant}"
    action = _ACTION.fullmatch(why)
    if action:
        option = next((option for option in action.groups() if option != ASKED), ASKED)
        return f"{option} is an action of its own, beside which no check runs: reframe -c checks/ with it"
    return f"{why}: see reframe --help"


def _meant(option: str, usage: str, own: Iterable[str]) -> str:
    """Return a clause with the known option that an unknown one resembles, or with a hint to the help."""
    known = {*own, *_OPTION.findall(usage)}
    near = difflib.get_close_matches(option.partition("=")[0], sorted(known), n=1, cutoff=0.6)
    return f": did you mean {near[0]}?" if near else ": see --help, and reframe --help for those that go on to ReFrame"
