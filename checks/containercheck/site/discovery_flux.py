"""The resources of a cluster as Flux tells them: ``flux resource list`` (flux-resource(1))."""

from __future__ import annotations

import re

from containercheck.site.discovery import NodeKind, kinds_of

#: Command that prints the scheduler's view: nodes, cores and GPUs by their state.
RESOURCES = ("flux", "resource", "list")
#: A row: state, queue and properties where there are such columns, counts, and names of nodes.
_ROW = re.compile(r"^ *(free|allocated|down) (?P<between>.*?) *(\d+) +(\d+) +(\d+)(?: +(\S+))? *$")


def node_kinds(resources: str) -> list[NodeKind]:
    """Return the kinds of nodes of each queue; without queues of a partition that is called ``default``.

    Flux prints sums over the nodes of a row, of which it does not say that they are alike: a number of cores that does
    not divide by that of the nodes is left out. A node that is partly allocated is in two rows.

    :param resources: what :data:`RESOURCES` printed.
    """
    counts: dict[str, dict[str, list[int]]] = {}
    out = set()
    has_queues = "QUEUE" in next((line for line in resources.splitlines() if "NNODES" in line), "").split()
    for match in filter(None, map(_ROW.match, resources.splitlines())):
        state, between, _, cores, gpus, names = match[1], match["between"], *match.groups()[2:]
        queue = between.split()[0] if has_queues and between.split() else "default"
        hosts = hosts_of(names or "")
        for name in hosts:
            total = counts.setdefault(queue, {}).setdefault(name, [0, 0])
            total[0] += int(cores) // len(hosts)
            total[1] += int(gpus) // len(hosts)
        if state == "down":
            out |= set(hosts)
    groups: dict[tuple[str, ...], set[str]] = {}
    for queue, nodes in counts.items():
        for name, (cores, gpus) in nodes.items():
            groups.setdefault((queue, str(cores), "0", str(gpus)), set()).add(name)
    return kinds_of(groups, out, {})


def hosts_of(names: str) -> list[str]:
    """Return the hosts of a list of RFC 29, in which brackets have numbers and ranges.

    >>> hosts_of("fluke[26-28,40],login1")
    ['fluke26', 'fluke27', 'fluke28', 'fluke40', 'login1']
    >>> hosts_of("n[08-10]")
    ['n08', 'n09', 'n10']
    """
    hosts = []
    for prefix, ranges, suffix in re.findall(r"([^,\[\]]+)(?:\[([\d,-]+)\])?([^,\[\]]*)", names):
        for part in ranges.split(",") if ranges else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1) if first else [None]
            hosts += [f"{prefix}{'' if n is None else str(n).zfill(len(first))}{suffix}" for n in numbers]
    return hosts
