"""Ask the machines of a system for their facts: this machine at once, a node of each other partition by a job."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.job.inventory import inventory
from containercheck.results.cases import ReportError, load
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.site import waiting

#: The check that asks the nodes of a partition, and the file with the answer.
CHECK, ANSWER = Path(__file__).with_name("inventory_check.py"), "inventory.json"


@dataclass(frozen=True)
class Answer:
    """The facts of a partition's nodes, or the reason why they are not known.

    :ivar partition: full name of the partition.
    :ivar is_here: whether its jobs run on this machine.
    :ivar facts: facts as ``node.inventory.inventory`` returns them; empty if they are not known.
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
    arguments = _of_site(arguments)
    system = reframe_process.configuration(arguments, place).system
    platforms = {part["name"]: part.get("container_platforms", []) for part in system["partitions"]}
    # A job loads the module of a runtime, also on this machine.
    with_modules = {name for name, entries in platforms.items() if any(entry.get("modules") for entry in entries)}
    local = [part["name"] for part in system["partitions"] if part["scheduler"] == "local"]
    here = [name for name in local if name not in with_modules]
    answers = {}
    if here:
        facts = inventory()
        answers = {name: Answer(f"{system['name']}:{name}", True, facts) for name in here}
    if len(here) < len(system["partitions"]):
        answers.update(_asked(arguments, place, relay, system, here))
    return [
        replace(answers[name], platforms=tuple(entry["type"] for entry in entries), is_here=name in local)
        for name, entries in platforms.items()
    ]


def _asked(
    arguments: Sequence[str], place: Workplace, relay: Relay, system: Mapping[str, Any], here: Sequence[str]
) -> dict[str, Answer]:
    """Return the answers of nodes, by the name of the partition.

    :param here: partitions that need no job.
    """
    names = [part["name"] for part in system["partitions"] if part["name"] not in here]
    # Nodes see ReFrame's stage directory too.
    stage = reframe_process.configuration(arguments, place).stage
    stage.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ask-", dir=stage) as directory:
        report = Path(directory, "report.json")
        kept = [f"--stage={directory}/stage", f"--output={directory}/output", f"--report-file={report}"]
        wanted = ",".join(f"{system['name']}:{name}" for name in names)
        words = ["-c", str(CHECK), *arguments, *kept, "--keep-stage-files", "-S", f"valid_systems={wanted}"]
        reframe_process.reframe(words, place, relay)
        try:
            raw = [case for run in load(report)["runs"] for case in run["testcases"]]
        except ReportError:
            raw = []
        by_name = {name: [case for case in raw if case["partition"] == name] for name in names}
        return {name: _answer(f"{system['name']}:{name}", cases, stage) for name, cases in by_name.items()}


def _of_site(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of ReFrame that name the system, and options of its jobs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-C", "--config-file", action="append", default=[])
    parser.add_argument("-J", "--job-option", action="append", default=[])
    parser.add_argument("--system")
    known, _ = parser.parse_known_args(arguments)
    words = [word for path in known.config_file for word in ("-C", path)]
    words += [word for option in known.job_option for word in ("-J", option)]
    return [*words, f"--system={known.system}"] if known.system else words


def _answer(partition: str, cases: Sequence[Mapping[str, Any]], stage: Path) -> Answer:
    """Return the answer that the case of a partition left in its stage directory, or the reason why there is none."""
    ran = [case for case in cases if case["result"] != "skip"]
    if not ran:
        return Answer(partition, False, problem="ReFrame ran no job there")
    try:
        return Answer(partition, False, json.loads(Path(ran[-1]["stagedir"], ANSWER).read_text()))
    except (OSError, ValueError):
        job_output = Path(ran[-1]["stagedir"], ran[-1].get("job_stderr") or "rfm_job.err")
        if ran[-1].get("jobid") and not job_output.exists():
            return Answer(partition, False, problem=waiting.unseen(stage))
        why = (ran[-1].get("fail_reason") or "its job printed nothing").strip().splitlines()
        return Answer(partition, False, problem=why[0] if why else "its job printed nothing")
