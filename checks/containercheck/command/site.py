"""Write a first site file from the tables of the scheduler; facts that they do not list are commented lines.

A reader takes the tables of one scheduler. Container runtimes and MPI are those of this host. The user compares them
with the nodes by ``containercheck doctor``.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from containercheck.command.parsers import FINE, parsed
from containercheck.job import inventory, mpi
from containercheck.results.formatting import say, typed, write_file
from containercheck.session.reframe_process import Workplace
from containercheck.session.usage import UsageError

#: PMI plugins of srun with which it also starts the ranks of a container's MPI.
_STARTS_RANKS = re.compile(r"pmix|pmi2|cray_shasta")


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the file or write it, and return the exit status.

    :raises UsageError: the file exists.
    :raises OSError: it cannot be written.
    """
    options, _, _ = parsed("site", argv)
    name = options.system or "mysite"
    cluster = find_cluster()
    if not cluster:
        # Standard output may be the file.
        print("site: no scheduler answered: this file measures this machine", file=sys.stderr)
    text = text_of(name, cluster, inventory.inventory())
    path: Path | None = options.file
    if path is None:
        print(text, end="")
        return FINE
    if path.exists():
        raise UsageError(f"{path} exists, and is not changed: write another file, and compare both (diff)")
    write_file(path, text)
    say(f"written: {path}; look through it, then {typed('doctor')} -C {path} --system={name}")
    return FINE


# The scheduler and its tables


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that are alike; 0 stands for a number that the scheduler does not list.

    :ivar partition: name of the partition or queue.
    :ivar nodes: number of nodes.
    :ivar time_limit: longest job, as ReFrame writes it; empty if unknown.
    :ivar sockets: sockets of a node.
    :ivar cores: cores of a socket.
    :ivar threads: hardware threads of a core.
    :ivar memory: memory of a node in MiB.
    :ivar gpus: GPUs of a node.
    :ivar gpu_type: the scheduler's name of the GPUs.
    :ivar features: names that a job may ask for.
    """

    partition: str
    nodes: int
    time_limit: str = ""
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    memory: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scheduler:
    """A scheduler with commands that list its partitions.

    :ivar backend: ReFrame's name.
    :ivar title: name for people.
    :ivar tables: commands that print the tables.
    :ivar read: function that returns the kinds of nodes from these tables; none from any other text.
    :ivar access: option of a job that chooses the partition.
    :ivar gpu_option: option of a job that asks for GPUs, with ReFrame's placeholder; empty if centres differ.
    """

    backend: str
    title: str
    tables: tuple[tuple[str, ...], ...]
    read: Callable[..., list[NodeKind]]
    access: str
    gpu_option: str = ""

    def list_kinds(self) -> list[NodeKind]:
        """Run the commands of the tables, and return the kinds of nodes; none without this scheduler."""
        results = [inventory.output_of(command) for command in self.tables]
        return self.read(*(output if status == 0 else "" for status, output in results))


def read_slurm(table: str) -> list[NodeKind]:
    """Return the kinds of nodes that sinfo lists, by partition; partitions that are not up are left out."""
    nodes: dict[NodeKind, set[str]] = {}
    for line in table.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 10 and fields[-1] == "up":
            partition, node, *shape, resources, features, limit, _ = fields
            # sinfo writes a plus after a number if nodes differ.
            sockets, cores, threads, memory = (int(re.sub(r"\D", "", text) or 0) for text in shape)
            gpu_type, gpus = gpus_of(resources)
            kind = NodeKind(
                partition,
                nodes=0,
                time_limit=reframe_time(limit),
                sockets=sockets,
                cores=cores,
                threads=threads,
                memory=memory,
                gpus=gpus,
                gpu_type=gpu_type,
                features=() if features == "(null)" else tuple(features.split(",")),
            )
            nodes.setdefault(kind, set()).add(node)
    # Kinds of a partition follow each other, the largest first.
    partitions = list(dict.fromkeys(kind.partition for kind in nodes))
    kinds = [replace(kind, nodes=len(names)) for kind, names in nodes.items()]
    return sorted(kinds, key=lambda kind: (partitions.index(kind.partition), -kind.nodes))


def read_pbs(nodes: str, queues: str) -> list[NodeKind]:
    """Return the nodes of each queue that takes jobs, from the JSON of ``pbsnodes`` and ``qstat``.

    A node serves the queue that its server names, those of its resource ``Qlist``, or else all queues. The fields are
    those of pbs_node_attributes(7B) and pbs_queue_attributes(7B).
    """
    limits = {
        name: reframe_time(str(queue.get("resources_max", {}).get("walltime", "")))
        for name, queue in _object(queues).get("Queue", {}).items()
        if [str(queue.get(key)) for key in ("queue_type", "enabled", "started")] == ["Execution", "True", "True"]
    }
    served: dict[str, set[str]] = {}
    for name, node in _object(nodes).get("nodes", {}).items():
        resources = node.get("resources_available", {})
        if not int(resources.get("ncpus", 0)):
            # If the sockets of a host are listed as nodes, the entry of the host has no processors.
            continue
        listed = resources.get("Qlist", "")
        named = limits.keys() & set(listed.split(",") if isinstance(listed, str) else listed)
        for queue in limits.keys() & {node["queue"]} if node.get("queue") else named or limits:
            # n1[0] is a part of the host n1.
            served.setdefault(queue, set()).add(name.partition("[")[0])
    return [NodeKind(queue, len(served[queue]), limit) for queue, limit in limits.items() if queue in served]


def read_grid_engine(table: str) -> list[NodeKind]:
    """Return the nodes of each queue from ``qhost -q``, which lists the queues of a host below it, indented."""
    hosts: dict[str, int] = {}
    answers = False
    for line in table.splitlines():
        words = line.split()
        if line.startswith("   ") and words and answers:
            hosts[words[0]] = hosts.get(words[0], 0) + 1
        elif len(words) > 2:
            # The daemon of a host without a number of processors does not answer.
            answers = words[2].isdigit()
    return [NodeKind(queue, nodes) for queue, nodes in hosts.items()]


#: The schedulers in the order in which they are asked. Sources: sinfo(1), pbsnodes(8B), qstat(1B) and
#: qhost(1).
SCHEDULERS = (
    Scheduler(
        "slurm",
        "Slurm",
        (("sinfo", "--noheader", "--Node", "--format=%R|%N|%X|%Y|%Z|%m|%G|%f|%l|%a"),),
        read_slurm,
        "--partition={}",
        "--gres=gpu:{num_gpus_per_node}",
    ),
    Scheduler(
        "pbs",
        "PBS",
        (("pbsnodes", "-a", "-F", "json"), ("qstat", "-Q", "-f", "-F", "json")),
        read_pbs,
        "-q {}",
        "ngpus={num_gpus_per_node}",
    ),
    Scheduler("sge", "Grid Engine", (("qhost", "-q"),), read_grid_engine, "-q {}"),
)


@dataclass(frozen=True)
class Cluster:
    """A cluster as its scheduler lists it.

    :ivar scheduler: the scheduler.
    :ivar kinds: kinds of nodes, by partition.
    :ivar backend: ReFrame's name of the scheduler, and of the commands by which it asks for a job's state.
    :ivar parallel_environment: parallel environment of Grid Engine for MPI; empty if unknown.
    """

    scheduler: Scheduler
    kinds: Sequence[NodeKind]
    backend: str
    parallel_environment: str = ""


def find_cluster() -> Cluster | None:
    """Return the cluster of this host, of the first scheduler that answers; None if none does."""
    for scheduler in SCHEDULERS:
        kinds = scheduler.list_kinds()
        if not kinds:
            continue
        if scheduler.backend == "slurm":
            accounts, _ = inventory.output_of(["sacct", "--noheader", "--allocations"])
            return Cluster(scheduler, kinds, "slurm" if accounts == 0 else "squeue")
        if scheduler.backend == "sge":
            status, environments = inventory.output_of(["qconf", "-spl"])
            for_mpi = [name for name in environments.split() if status == 0 and "mpi" in name.lower()]
            return Cluster(scheduler, kinds, "sge", *for_mpi[:1])
        return Cluster(scheduler, kinds, scheduler.backend)
    return None


def gpus_of(resources: str) -> tuple[str, int]:
    """Return type and number of the GPUs in a node's generic resources.

    >>> gpus_of("gpu:a100:4(S:0-1),nvme:1"), gpus_of("gpu:2"), gpus_of("(null)")
    (('a100', 4), ('gpu', 2), ('', 0))
    """
    listed = re.findall(r"(?:^|,)gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?", resources)
    return (listed[0][0] or "gpu" if listed else "", sum(int(number or 1) for _, number in listed))


def reframe_time(text: str) -> str:
    """Return a time limit of a scheduler as ReFrame writes it; empty for none.

    >>> reframe_time("1-12:00:00"), reframe_time("30:00"), reframe_time("infinite")
    ('1d12h0m0s', '0h30m0s', '')
    """
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if not match:
        return ""
    days, hours, minutes, seconds = match.groups()
    return (f"{int(days)}d" if days else "") + f"{int(hours or 0)}h{int(minutes)}m{int(seconds)}s"


def _object(text: str) -> dict[str, Any]:
    """Return the object in JSON; an empty one if the text is something else."""
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


# The file


@dataclass(frozen=True)
class Partition:
    """A partition of the file with nodes of one kind; an empty value becomes a commented line.

    :ivar kind: kind of its nodes; None for this machine.
    :ivar access: options of its jobs.
    :ivar is_mixed: whether these options also allow nodes of other kinds.
    :ivar processor: ReFrame's description of a node's processor.
    :ivar extras: extras of this library.
    """

    name: str
    kind: NodeKind | None
    access: Sequence[str]
    is_mixed: bool
    processor: Mapping[str, Any]
    extras: Mapping[str, Any]


def text_of(name: str, cluster: Cluster | None, here: Mapping[str, Any]) -> str:
    """Return the text of the file.

    :param name: name of the system.
    :param cluster: the cluster; None without a scheduler.
    :param here: facts of this host, as ``job.inventory.inventory`` returns them.
    """
    by_srun = cluster and cluster.scheduler.backend == "slurm" and any(map(_STARTS_RANKS.match, here["pmi"]))
    families = [library["family"] for library in here["mpi"] if library["family"] in mpi.FAMILIES]
    shared: dict[str, Any] = {"mpi": families[0]} if cluster and families and families[0] != "openmpi" else {}
    if cluster and cluster.parallel_environment:
        shared["parallel_environment"] = cluster.parallel_environment
    this_machine = Partition("default", None, (), False, {}, shared)
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # The file is Python and not HTML.
        autoescape=False,
    )
    # A string, list or dictionary without None and truth values is the same in JSON and in Python.
    templates.filters["python"] = json.dumps
    return templates.get_template("site_file.py.jinja").render(
        name=name,
        source=cluster.scheduler.title if cluster else "this machine, as no scheduler answered",
        hostnames=hostnames(socket.gethostname()),
        modules_system=_modules_system(os.environ),
        scheduler=cluster.backend if cluster else "local",
        launcher="srun" if by_srun else "mpirun" if cluster or here["mpi"] else "local",
        gpu_option=cluster.scheduler.gpu_option if cluster else "",
        platforms=[{"type": runtime["name"]} for runtime in here["runtimes"] if not runtime["problem"]],
        partitions=[_partition(kind, cluster, shared) for kind in cluster.kinds] if cluster else [this_machine],
        home=os.environ.get("HOME", "/"),
    )


def _partition(kind: NodeKind, cluster: Cluster, shared: Mapping[str, Any]) -> Partition:
    """Return the partition for nodes of one kind.

    :param shared: extras of all partitions.
    """
    others = [other for other in cluster.kinds if other.partition == kind.partition and other != kind]
    taken = {feature for other in others for feature in other.features}
    feature = next((feature for feature in kind.features if others and feature not in taken), "")
    number = [other for other in cluster.kinds if other.partition == kind.partition].index(kind) + 1
    return Partition(
        re.sub(r"\W", "_", kind.partition + (f"_{feature or number}" if others else "")),
        kind,
        [cluster.scheduler.access.format(kind.partition), *([f"--constraint={feature}"] if feature else [])],
        bool(others) and not feature,
        _processor(kind),
        {"max_nodes": kind.nodes, **({"memory_per_node": kind.memory << 20} if kind.memory else {}), **shared},
    )


def _processor(kind: NodeKind) -> dict[str, Any]:
    """Return ReFrame's description of a node's processor, of this host's architecture; empty if it is not listed."""
    if not kind.sockets:
        return {}
    return {
        "arch": platform.machine(),
        "num_cpus": kind.sockets * kind.cores * kind.threads,
        "num_cpus_per_core": kind.threads,
        "num_cpus_per_socket": kind.cores * kind.threads,
        "num_sockets": kind.sockets,
    }


def hostnames(name: str) -> str:
    r"""Return a regular expression for a host and others of its name.

    >>> hostnames("login2.example.org")
    '^login\\d+\\.example\\.org$'
    """
    return "^" + re.sub(r"\d+", r"\\d+", re.escape(name).replace(r"\-", "-")) + "$"


def _modules_system(environment: Mapping[str, str]) -> str:
    """Return ReFrame's name of the module system that this shell has, by its variables."""
    return "lmod" if "LMOD_CMD" in environment else "envmod" if "MODULES_CMD" in environment else "nomod"
