"""Partitions and queues as the scheduler of this host lists them, and modules, for a first site file.

A reader takes the tables of one scheduler. What a scheduler lists in another way at each centre, such as the cores of
PBS's nodes, is left to a job on a node, or to the person who completes the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from containercheck.job import inventory
from containercheck.job.container_runtimes import RUNTIMES


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
    """A scheduler whose partitions can be listed.

    :ivar backend: ReFrame's name.
    :ivar title: name for people.
    :ivar tables: commands that print the tables.
    :ivar read: function that returns the kinds of nodes from these tables; none from any other text.
    :ivar access: option of a job that chooses the partition.
    :ivar gpu_option: option of a job that asks for GPUs, with ReFrame's placeholder; empty where centres differ.
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
            # sinfo writes a plus after a number where nodes differ.
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
            # A host whose sockets are listed as nodes has no processors of its own.
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


def read_flux(table: str) -> list[NodeKind]:
    """Return the nodes of each queue of Flux; without queues of one that is called ``default``."""
    rows = [line.split("|") for line in table.splitlines() if re.fullmatch(r"[^|]*\|\d+\|\d+", line)]
    return [
        NodeKind(queue, int(nodes), gpus=int(gpus) // int(nodes))
        for queues, nodes, gpus in rows
        if int(nodes)
        for queue in (queues.strip() or "default").split(",")
    ]


#: The schedulers in the order in which they are asked. Sources: sinfo(1), pbsnodes(8B), qstat(1B), qhost(1), and
#: flux-resource(1), where "all" stands for all states.
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
    Scheduler(
        "flux",
        "Flux",
        (("flux", "resource", "list", "-s", "all", "-no", "{queue}|{nnodes}|{ngpus}"),),
        read_flux,
        "--queue={}",
    ),
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

    def feature_of(self, kind: NodeKind) -> str:
        """Return a feature that tells nodes from the others of their partition; empty where there is none."""
        others = [other for other in self.kinds if other.partition == kind.partition and other != kind]
        taken = {feature for other in others for feature in other.features}
        return next((feature for feature in kind.features if others and feature not in taken), "")

    def is_mixed(self, kind: NodeKind) -> bool:
        """Return whether jobs for nodes of a kind may get others of their partition."""
        return len([other for other in self.kinds if other.partition == kind.partition]) > 1 and not self.feature_of(
            kind
        )

    def access(self, kind: NodeKind) -> list[str]:
        """Return the options with which a job gets onto nodes of a kind, as a site file has them."""
        if self.backend == "flux" and kind.partition == "default":
            return []
        feature = self.feature_of(kind)
        return [self.scheduler.access.format(kind.partition), *([f"--constraint={feature}"] if feature else [])]

    def name(self, kind: NodeKind) -> str:
        """Return the name of ReFrame's partition for nodes of a kind."""
        kinds = [other for other in self.kinds if other.partition == kind.partition]
        number = "" if len(kinds) == 1 else f"_{self.feature_of(kind) or kinds.index(kind) + 1}"
        return re.sub(r"\W", "_", kind.partition + number)


def find_cluster(backend: str | None = None) -> Cluster | None:
    """Return the cluster that this host is part of; None where no scheduler answers.

    :param backend: ReFrame's name of the scheduler to ask; by default the first that answers.
    """
    for scheduler in SCHEDULERS:
        kinds = scheduler.list_kinds() if backend in (None, scheduler.backend) else []
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


_MPI_MODULE = re.compile(
    r"(.*/)?(openmpi|ompi|mpich|impi|intel-?mpi|mvapich2?|cray-mpich|hpcx|spectrum-mpi)(/|$)", re.I
)


def list_modules() -> str:
    """Return the modules of this host, one on a line, as a login shell lists them."""
    return inventory.output_of(["bash", "-lc", "module -t avail 2>&1"])[1]


def useful_modules(listed: str) -> tuple[dict[str, str], list[str]]:
    """Return the newest module of each container runtime, by the runtime's name, and all modules of MPI.

    :param listed: output of ``module -t avail``, with directories of modules, and with marks such as ``(default)``.
    """
    names = [re.sub(r"[(<].*|@$", "", line).strip() for line in listed.splitlines()]
    names = [name for name in dict.fromkeys(names) if name and not name.endswith((":", "/"))]
    runtimes = {}
    for runtime in RUNTIMES:
        pattern = re.compile(rf"(.*/)?{re.escape(runtime.name)}(-?(ce|pro))?(/|$)", re.I)
        matching = [name for name in names if pattern.match(name)]
        if matching:
            runtimes[runtime.name] = max(matching, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return runtimes, [name for name in names if _MPI_MODULE.match(name)]
