"""The partitions of a cluster as its scheduler tells them, for a site file that a person looks at before it is used.

Slurm's ``sinfo`` is read here (https://slurm.schedmd.com/sinfo.html, which explains the fields of ``--format``); other
schedulers have files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

#: What sinfo prints of each node in each partition: partition, node, processors, sockets, cores of a socket, threads of
#: a core, MiB of memory, generic resources, features, state.
NODES = ("sinfo", "--noheader", "--Node", "--format=%R|%N|%c|%X|%Y|%Z|%m|%G|%f|%T")
#: And of each partition: its name, the longest job, whether it is up.
LIMITS = ("sinfo", "--noheader", "--format=%R|%l|%a")
#: States of nodes that run no jobs of ours.
_OUT = ("down", "drain", "fail", "maint", "reserved", "unknown", "future", "powered_down")


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that are alike.

    :ivar partition: its name in the scheduler.
    :ivar nodes: how many there are.
    :ivar in_service: how many of them run jobs now.
    :ivar processors: of a node, with hardware threads; as PBS and Flux count them.
    :ivar sockets: of a node; 0 where that is not known, as are the next two.
    :ivar cores: of a socket.
    :ivar threads: of a core.
    :ivar memory: of a node, in MiB; 0 where that is not known.
    :ivar gpus: of a node.
    :ivar gpu_type: the scheduler's name of them; empty for none.
    :ivar features: names that a job may ask for.
    :ivar others: whether the partition has nodes of another kind too.
    :ivar time_limit: the longest job, as the scheduler writes it; empty for none.
    """

    partition: str
    nodes: int
    in_service: int
    processors: int
    sockets: int
    cores: int
    threads: int
    memory: int
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    others: bool = False
    time_limit: str = ""


def node_kinds(nodes: str, limits: str = "") -> list[NodeKind]:
    """Return the kinds of nodes that sinfo tells of, in its order of partitions, the largest kind of each first.

    :param nodes: what :data:`NODES` printed.
    :param limits: what :data:`LIMITS` printed; partitions that are not up are left out.
    """
    known = [line.split("|") for line in limits.splitlines() if line.count("|") == 2]
    down = {name for name, _, state in known if state.strip() != "up"}
    limit = {name: "" if text.strip() in ("infinite", "n/a") else text.strip() for name, text, _ in known}
    groups: dict[tuple[str, ...], set[str]] = {}
    states: dict[str, str] = {}
    for line in nodes.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 10 and fields[0] not in down:
            partition, node, *facts, state = fields
            groups.setdefault((partition, *facts), set()).add(node)
            states[node] = state
    partitions = list(dict.fromkeys(facts[0] for facts in groups))
    kinds = []
    for partition in partitions:
        own = sorted((item for item in groups.items() if item[0][0] == partition), key=lambda item: -len(item[1]))
        for (_, processors, sockets, cores, threads, memory, resources, features), names in own:
            gpu_type, gpus = gpus_of(resources)
            in_service = sum(not states[name].startswith(_OUT) for name in names)
            kinds.append(
                NodeKind(
                    partition,
                    nodes=len(names),
                    in_service=in_service,
                    processors=_number(processors),
                    sockets=_number(sockets),
                    cores=_number(cores),
                    threads=_number(threads),
                    memory=_number(memory),
                    gpus=gpus,
                    gpu_type=gpu_type,
                    features=() if features in ("(null)", "") else tuple(features.split(",")),
                    others=len(own) > 1,
                    time_limit=limit.get(partition, ""),
                )
            )
    return kinds


def kinds_of(
    groups: Mapping[tuple[str, ...], Collection[str]], out: Collection[str], limits: Mapping[str, str]
) -> list[NodeKind]:
    """Return the kinds of nodes of each partition, in their order, the largest kind of each first.

    :param groups: names of nodes by partition, processors, MiB of memory, GPUs, and where it is known sockets, cores of
        a socket and threads of a core.
    :param out: names of nodes that run no jobs now.
    :param limits: the longest job by partition, as the scheduler writes it.
    """
    kinds = []
    for partition in dict.fromkeys(facts[0] for facts in groups):
        own = sorted((item for item in groups.items() if item[0][0] == partition), key=lambda item: -len(item[1]))
        for (_, *facts), names in own:
            processors, memory, gpus, *shape = map(int, facts)
            sockets, cores, threads = shape or (0, 0, 0)
            kinds.append(
                NodeKind(
                    partition,
                    nodes=len(names),
                    in_service=len(set(names) - set(out)),
                    processors=processors,
                    sockets=sockets,
                    cores=cores,
                    threads=threads,
                    memory=memory,
                    gpus=gpus,
                    gpu_type="gpu" if gpus else "",
                    others=len(own) > 1,
                    time_limit=limits.get(partition, ""),
                )
            )
    return kinds


def _number(text: str) -> int:
    """Return a number of sinfo's, which has a plus where nodes differ."""
    return int(re.sub(r"\D", "", text) or 0)


def gpus_of(resources: str) -> tuple[str, int]:
    """Return type and number of the GPUs in a node's generic resources.

    >>> gpus_of("gpu:a100:4(S:0-1),nvme:1"), gpus_of("gpu:2"), gpus_of("(null)")
    (('a100', 4), ('gpu', 2), ('', 0))
    """
    names: list[str] = []
    count = 0
    for name, number in re.findall(r"(?:^|,)gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?", resources):
        names.append(name or "gpu")
        count += int(number or 1)
    return (names[0] if names else "", count)


def distinguishing(kind: NodeKind, others: Iterable[NodeKind]) -> str:
    """Return a feature that only this kind of its partition's nodes has; empty where there is none."""
    taken = {word for other in others if other != kind and other.partition == kind.partition for word in other.features}
    return next((word for word in kind.features if word not in taken), "")


def reframe_time(text: str) -> str:
    """Return a time limit of Slurm's as ReFrame writes it; empty for what is none.

    >>> reframe_time("1-12:00:00"), reframe_time("30:00"), reframe_time("infinite")
    ('1d12h0m0s', '0h30m0s', '')
    """
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if not match:
        return ""
    days, hours, minutes, seconds = match.groups()
    return (f"{int(days)}d" if days else "") + f"{int(hours or 0)}h{int(minutes)}m{int(seconds)}s"
