"""Write a first file for a site, from what its scheduler, a job on its nodes and its modules report.

What none of them reports well is a commented line, which the person completes.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from containercheck.command.parsers import BROKEN, FINE, WRONG_USAGE, parsed
from containercheck.job import inventory, mpi
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.results.cases import write_file
from containercheck.results.formatting import say, speak_as, typed
from containercheck.session import inventories, reframe_process
from containercheck.session.inventories import Answer
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError
from containercheck.site import discovery
from containercheck.site.discovery import Cluster, NodeKind

#: PMI plugins of srun with which it also starts the ranks of a container's MPI.
_STARTS_RANKS = re.compile(r"pmix|pmi2|cray_shasta")
#: Longest wait for a job that only asks a node.
_PENDING = "5m"


@dataclass(frozen=True)
class Surroundings:
    """The facts from which a file is made.

    :ivar name: name of the system.
    :ivar cluster: the cluster; None without a scheduler.
    :ivar here: facts of this host, as ``job.inventory.inventory`` returns them.
    :ivar modules: output of ``module -t avail``.
    :ivar answers: answers of the nodes, by the name of the partition; empty before they are asked.
    :ivar unasked: reason for which no node was asked; empty otherwise.
    """

    name: str
    cluster: Cluster | None
    here: Mapping[str, Any]
    modules: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    unasked: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition of the file; an empty value becomes a commented line.

    :ivar scheduler: ReFrame's name of the scheduler.
    :ivar launcher: ReFrame's name of the launcher.
    :ivar kind: kind of its nodes; None for this machine.
    :ivar access: options of its jobs.
    :ivar is_mixed: whether these options also allow nodes of other kinds.
    :ivar processor: ReFrame's description of a node's processor.
    :ivar gpu_option: option that asks for GPUs.
    :ivar platforms: container runtimes, as ReFrame's ``container_platforms``.
    :ivar extras: extras of this library.
    :ivar has_mpi: whether the loader finds an MPI without a module.
    :ivar origin: host that reported facts; the reason where none did.
    """

    name: str
    scheduler: str
    launcher: str
    kind: NodeKind | None = None
    access: Sequence[str] = ()
    is_mixed: bool = False
    processor: Mapping[str, Any] = field(default_factory=dict)
    gpu_option: str = ""
    platforms: Sequence[Mapping[str, Any]] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
    has_mpi: bool = True
    origin: str = ""


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the file, write it, or print how it differs from the present one; return the exit status."""
    speak_as("site")
    options, _, _ = parsed("site", argv)
    name = options.system or "mysite"
    text = site_file(name, place, not options.no_jobs, options.scheduler)
    path: Path | None = options.file
    if path is None:
        print(text, end="")
        return FINE
    try:
        if path.exists():
            present = path.read_text()
            lines = difflib.unified_diff(
                present.splitlines(keepends=True), text.splitlines(keepends=True), str(path), "the present state"
            )
            print("".join(lines), end="")
            say(f"{path} exists, and was not changed" if present != text else f"{path} is up to date")
            return FINE if present == text else BROKEN
        write_file(path, text)
    except (OSError, UnicodeDecodeError) as error:
        say(f"error: cannot write {path}: {getattr(error, 'strerror', None) or error}")
        return WRONG_USAGE
    say(f"written: {path}; look through it, then {typed('doctor')} -C {path} --system={name}")
    return FINE


def site_file(name: str, place: Workplace, with_jobs: bool = True, scheduler: str | None = None) -> str:
    """Return the text of the file.

    :param name: name of the system.
    :param with_jobs: whether a job asks a node of each partition.
    :param scheduler: ReFrame's name of the scheduler to ask; by default the first that answers.
    """
    facts = Surroundings(
        name, discovery.find_cluster(scheduler), inventory.inventory(), discovery.list_modules(), unasked="--no-jobs"
    )
    return text_of(ask_nodes(facts, place) if facts.cluster and with_jobs else facts)


def ask_nodes(facts: Surroundings, place: Workplace) -> Surroundings:
    """Return the facts with the answers of the nodes, whose jobs a draft of the file describes."""
    with tempfile.TemporaryDirectory() as directory, reframe_process.Relay() as relay:
        draft = Path(directory, "site.py")
        # Without modules, jobs report what nodes have anyway.
        draft.write_text(text_of(replace(facts, modules=""), _PENDING))
        place = replace(place, report_file=Path(directory, "report.json"))
        try:
            answers = inventories.of_partitions(["-C", str(draft), f"--system={facts.name}"], place, relay)
        except (UsageError, ReframeFailed, OSError) as error:
            return replace(facts, unasked=str(error))
    return replace(facts, answers={answer.partition.rpartition(":")[2]: answer for answer in answers}, unasked="")


def text_of(facts: Surroundings, max_pending_time: str = "") -> str:
    """Return the text of the file that these facts make.

    :param max_pending_time: longest wait for its jobs; empty for none.
    """
    runtimes, mpi_modules = discovery.useful_modules(facts.modules)
    cluster = facts.cluster
    if cluster:
        partitions = [_of_kind(kind, cluster, facts, runtimes, max_pending_time) for kind in cluster.kinds]
    else:
        launcher = "mpirun" if facts.here["mpi"] else "local"
        platforms = _platforms(facts.here, runtimes)
        partitions = [
            Partition(
                "default", "local", launcher, platforms=platforms, has_mpi=bool(facts.here["mpi"]), origin="this host"
            )
        ]
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # The file is Python, and no page.
        autoescape=False,
    )
    # A string, list or dictionary without None and truth values is the same in JSON and in Python.
    templates.filters["python"] = json.dumps
    return templates.get_template("site_file.py.jinja").render(
        name=facts.name,
        source=cluster.scheduler.title if cluster else "this machine, as no scheduler answered",
        hostnames=hostnames(socket.gethostname()),
        modules_system=_modules_system(os.environ),
        mpi_modules=mpi_modules,
        partitions=partitions,
        home=os.environ.get("HOME", "/"),
    )


def hostnames(name: str) -> str:
    r"""Return a regular expression for a host and others of its name.

    >>> hostnames("login2.example.org")
    '^login\\d+\\.example\\.org$'
    """
    return "^" + re.sub(r"\d+", r"\\d+", re.escape(name).replace(r"\-", "-")) + "$"


def _modules_system(environment: Mapping[str, str]) -> str:
    """Return ReFrame's name of the module system that this shell has, by its variables."""
    return "lmod" if "LMOD_CMD" in environment else "tmod4" if "MODULES_CMD" in environment else "nomod"


def _of_kind(
    kind: NodeKind, cluster: Cluster, facts: Surroundings, runtimes: Mapping[str, str], max_pending_time: str
) -> Partition:
    """Return the partition whose nodes are of one kind, from the scheduler, completed by the answer of a job."""
    name = cluster.name(kind)
    answer = facts.answers.get(name, Answer(name, False, problem=facts.unasked))
    node = answer.facts
    memory = kind.memory or (node["processor"]["memory"] >> 20 if node else 0)
    extras: dict[str, Any] = {"max_nodes": kind.nodes, **({"memory_per_node": memory << 20} if memory else {})}
    if max_pending_time:
        extras["max_pending_time"] = max_pending_time
    if cluster.parallel_environment:
        extras["parallel_environment"] = cluster.parallel_environment
    families = [library["family"] for library in node["mpi"] if library["family"] in mpi.FAMILIES] if node else []
    if families and families[0] != "openmpi":
        extras["mpi"] = families[0]
    by_srun = cluster.scheduler.backend == "slurm" and any(map(_STARTS_RANKS.match, (node or facts.here)["pmi"]))
    return Partition(
        name,
        cluster.backend,
        "srun" if by_srun else "mpirun",
        kind=replace(kind, gpus=len(node["gpus"]), gpu_type="gpu") if node and not kind.gpus else kind,
        access=cluster.access(kind),
        is_mixed=cluster.is_mixed(kind),
        processor=_processor(kind, node),
        gpu_option=cluster.scheduler.gpu_option,
        platforms=_platforms(node or facts.here, runtimes),
        extras=extras,
        has_mpi=bool(node and node["mpi"]),
        origin=f"a job on {node['host']['name']}" if node else f"no job ({answer.problem})",
    )


def _processor(kind: NodeKind, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return ReFrame's description of a node's processor: the scheduler's, else the job's; empty without either."""
    sockets, cores, threads = kind.sockets, kind.cores, kind.threads
    if not sockets and node:
        processor = node["processor"]
        sockets, cores = processor["sockets"], max(1, processor["cores"] // processor["sockets"])
        threads = max(1, processor["processors"] // processor["cores"])
    if not sockets:
        return {}
    return {
        **({"arch": node["processor"]["architecture"]} if node else {}),
        "num_cpus": sockets * cores * threads,
        "num_cpus_per_core": threads,
        "num_cpus_per_socket": cores * threads,
        "num_sockets": sockets,
    }


def _platforms(host: Mapping[str, Any], modules: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the container runtimes of a host, or of modules, the preferred first."""
    usable = [runtime["name"] for runtime in host["runtimes"] if not runtime["problem"]]
    return [
        {"type": runtime.name, **({} if runtime.name in usable else {"modules": [modules[runtime.name]]})}
        for runtime in RUNTIMES
        if runtime.name in usable or runtime.name in modules
    ]
