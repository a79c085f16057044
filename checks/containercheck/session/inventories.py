"""Ask the machines of a system for their facts: this machine at once, a node of each other partition by a job."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.job.inventory import inventory
from containercheck.session import reframe_process, usage
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.site import hosts, waiting


@dataclass(frozen=True)
class Answer:
    """The facts of a partition's nodes, or the reason why they are not known.

    :ivar partition: full name of the partition.
    :ivar is_here: whether its jobs run on this machine.
    :ivar facts: facts as ``job.inventory.inventory`` returns them; empty if they are not known.
    :ivar problem: reason why they are not known; empty if they are.
    :ivar platforms: container runtimes that the site's file names for the partition.
    """

    partition: str
    is_here: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    platforms: tuple[str, ...] = ()


def of_partitions(arguments: Sequence[str], place: Workplace, relay: Relay) -> list[Answer]:
    """Return the answers of the partitions of the system, in the order of the site's file.

    :param arguments: arguments for ReFrame, which name the site's file and the system.
    :raises ReframeFailed: ReFrame cannot read the configuration.
    :raises UsageError: ReFrame does not accept the arguments.
    """
    arguments, job_options = _of_site(arguments)
    system = reframe_process.configuration(arguments, place).system
    platforms = {
        f"{system['name']}:{part['name']}": part.get("container_platforms", []) for part in system["partitions"]
    }
    local = {f"{system['name']}:{part['name']}" for part in system["partitions"] if part["scheduler"] == "local"}
    # A job loads the module of a runtime, also on this machine.
    here = {name for name in local if not any(entry.get("modules") for entry in platforms[name])}
    facts = inventory() if here else {}
    asked: dict[str, Any] = {name: {"facts": facts} for name in here}
    if others := [name for name in platforms if name not in here]:
        asked.update(_asked(others, job_options, arguments, place, relay))
    return [
        Answer(name, name in local, platforms=tuple(entry["type"] for entry in entries), **asked[name])
        for name, entries in platforms.items()
    ]


def _asked(
    names: Sequence[str], job_options: Sequence[str], arguments: Sequence[str], place: Workplace, relay: Relay
) -> dict[str, dict[str, Any]]:
    """Return facts and problem of a node of each partition, by the partition's full name."""
    place.reports.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, place.log.open("ab") as log:
        file = Path(directory, "answers.json")
        wanted = json.dumps({"partitions": names, "job_options": job_options, "file": str(file)})
        process = subprocess.Popen(
            [sys.executable, "-m", hosts.__name__, wanted, "--nocolor", *arguments, f"{usage.ASKED}=systems/0"],
            cwd=place.directory,
            env=reframe_process.environment(place),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if relay.wait(process) == 0:
            return json.loads(file.read_text())
    problem = reframe_process.last_error(place.log) or waiting.last_line(place.log)
    return {name: {"problem": problem} for name in names}


def _of_site(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of ReFrame that name the system, and the options of its jobs, as in a job script."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-C", "--config-file", action="append", default=[])
    parser.add_argument("-J", "--job-option", action="append", default=[])
    parser.add_argument("--system")
    known, _ = parser.parse_known_args(arguments)
    words = [word for path in known.config_file for word in ("-C", path)]
    words += [f"--system={known.system}"] if known.system else []
    return words, [_job_option(option) for option in known.job_option]


def _job_option(option: str) -> str:
    """Return an option of a job script, from a value of ReFrame's ``-J``: the same, ``name=value``, or ``n=value``."""
    name, _, value = option.partition("=")
    return option if option.startswith(("-", "#")) else f"-{name} {value}" if len(name) == 1 else f"--{name}={value}"
