"""Format numbers and columns, print messages, write files; and the error that ends a command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from containercheck.job.texts import number as number
from containercheck.job.texts import size as size

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

#: Name of the command that the user typed, and the words before it; ``ci/`` for a script of the checkout.
_speaker, _before = "run", "containercheck "


class CommandError(Exception):
    """A command cannot do its work; the message is one line with the reason and a remedy.

    :cvar status: exit status of the command.
    """

    status = 2


def count(amount: int, noun: str) -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items in groups with equal keys, in the order of their first items."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def first_line(text: str) -> str:
    """Return the first line of a text; empty for an empty text."""
    return text.partition("\n")[0]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def first(texts: Sequence[str], most: int) -> str:
    """Return a list of the first texts, and the number of the others."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def speak_as(command: str) -> None:
    """Set the command at the beginning of all messages: the command that the user typed."""
    global _speaker
    _speaker = command


def type_with(before: str) -> None:
    """Set the words before containercheck's commands in messages, as the user typed them: ``ci/``, for example."""
    global _before
    _before = before


def speaker() -> str:
    """Return the name of the command that the user typed."""
    return _speaker


def typed(command: str) -> str:
    """Return a command of containercheck as the user has to type it."""
    return f"{_before}{command}"


def say(text: str) -> None:
    """Print a message after the name of the typed command, in order with ReFrame's output."""
    print(f"{_speaker}: {text}", flush=True)


def write_file(path: Path, text: str) -> None:
    """Write a file in one step: readers never see half of it.

    :raises OSError: it cannot be written; an older file is not changed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
