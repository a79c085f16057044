"""Read the sinks of a site: the places to which nights and sessions send their results, from the site file."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ

from containercheck.job import texts
from containercheck.site import extras
from containercheck.site.extras import NAMESPACE, extra

#: Kinds of sinks, each with the keys that it needs.
KINDS: Mapping[str, tuple[str, ...]] = {
    "openmetrics": ("path",),
    "jsonlines": ("path",),
    "junit": ("path",),
    "httpjson": ("url",),
    "slack": (),
    "mattermost": (),
}
#: Kinds with a secret address: anyone with the address can write to the channel.
CHATS = ("slack", "mattermost")
#: Commands that can send results; by default only ``nightly`` does.
COMMANDS = ("nightly", "run", "acceptance")


@dataclass(frozen=True)
class Sink:
    """Describe a place to which results are sent.

    :ivar name: its name in the site file.
    :ivar kind: ``openmetrics``, ``jsonlines``, ``junit``, ``httpjson``, ``slack`` or ``mattermost``.
    :ivar path: file of ``jsonlines`` and ``junit``; for ``openmetrics`` the directory of the node exporter's textfile
        collector.
    :ivar url: address of ``httpjson``, which gets one line of JSON for each metric.
    :ivar secret_file: file with the address of a chat's webhook, or with a bearer token for ``httpjson``.
    :ivar secret_variable: environment variable with that, in place of the file.
    :ivar commands: commands that send results: ``nightly``, ``run``, ``acceptance``. Default: ``nightly``.
    :ivar link: address at which people find the report, for messages. Default: its path.
    """

    name: str
    kind: str = extra(str, "", choices=KINDS)
    path: str | None = extra(str)
    url: str | None = extra(str)
    secret_file: str | None = extra(str)
    secret_variable: str | None = extra(str)
    commands: list[str] = extra(typ.List[str], list)
    link: str | None = extra(str)

    @property
    def file(self) -> Path:
        """The file or directory, with $VARIABLES and ~ expanded."""
        return extras.path_of(self.path or "")

    def secret(self) -> str:
        """Return the secret; empty if the site names none.

        :raises OSError: the file cannot be read, or there is no such variable.
        """
        if self.secret_file:
            return texts.utf8(extras.path_of(self.secret_file)).strip()
        if self.secret_variable and self.secret_variable not in os.environ:
            raise OSError(f"the environment has no {self.secret_variable}")
        return os.environ.get(self.secret_variable or "", "")

    def require(self) -> None:
        """Check that the keys fit together.

        :raises ValueError: one is missing, or holds a secret.
        """
        missing = [key for key in ("kind", *KINDS.get(self.kind, ())) if not getattr(self, key)]
        if missing:
            raise ValueError(f"{self.name} needs the key {missing[0]!r}")
        if self.kind in CHATS and (self.url or not (self.secret_file or self.secret_variable)):
            raise ValueError(
                f"{self.name}: the address of a webhook is a secret: write it into a file that only you can read, and "
                "name that in 'secret_file'; or name a variable in 'secret_variable'"
            )
        address = urllib.parse.urlsplit(self.url or "")
        if address.username or address.password or address.query:
            raise ValueError(f"{self.name}: 'url' has a user or a query, which may be a secret: use 'secret_file'")
        if unknown := [command for command in self.commands if command not in COMMANDS]:
            raise ValueError(f"{self.name}: no results of {unknown[0]!r}: there are {', '.join(COMMANDS)}")


def declared(settings: Mapping[str, Any]) -> list[Sink]:
    """Return the sinks of the extra ``sinks`` of a partition.

    :raises SiteError: a key is unknown, or a value is of the wrong type.
    :raises ValueError: see :meth:`Sink.require`.
    """
    found = [
        Sink(name, **extras.checked(Sink, entry, f"{NAMESPACE}: sinks: {name}")) for name, entry in settings.items()
    ]
    for sink in found:
        sink.require()
    return found


def of_system(system: Mapping[str, Any], command: str) -> list[Sink]:
    """Return the sinks of all partitions of a system for the results of a command; those of one name count once.

    :param system: as the site file has it.
    :raises SiteError, ValueError: see :func:`declared`.
    """
    settings = [_settings(partition) for partition in system.get("partitions", ())]
    by_name = {sink.name: sink for each in settings for sink in declared(each)}
    return [sink for sink in by_name.values() if command in (sink.commands or COMMANDS[:1])]


def _settings(partition: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((partition.get("extras") or {}).get(NAMESPACE) or {}).get("sinks") or {}
