"""The queues of a cluster as OpenPBS and PBS Professional tell them: ``pbsnodes -a -F json``, ``qstat -Q -f -F json``.

The fields are those of pbs_node_attributes(7B), pbs_resources(7B) and pbs_queue_attributes(7B) of OpenPBS. Torque's
``pbsnodes`` has no such format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from containercheck.site.discovery import NodeKind, kinds_of

#: Commands that print nodes and queues as JSON, and the nodes as a table where that is all that a user may see.
NODES = ("pbsnodes", "-a", "-F", "json")
QUEUES = ("qstat", "-Q", "-f", "-F", "json")
TABLE = ("pbsnodes", "-aSj")
#: Parts of states of nodes that run no jobs of ours (pbs_node_attributes(7B), "state").
_OUT = ("down", "offline", "stale", "unknown", "provisioning", "maintenance", "sleep")
#: Units of sizes (pbs_resources(7B), "size"); KiB by their letter.
_UNITS = {"b": 1 / 1024, "kb": 1, "mb": 1 << 10, "gb": 1 << 20, "tb": 1 << 30, "pb": 1 << 40}
#: A row of the table, from ``vnode`` to ``ngpus``; blanks in "0 b/0 b" are part of a size.
_ROW = re.compile(
    r"^(?P<name>\S+) +(?P<state>\S+) +\d+ +\d+ +\d+ +\S.*?/(?P<memory>\d+ ?\w+) +\S+?/(?P<ncpus>\d+) +\S+?/\d+ "
    r"+\S+?/(?P<ngpus>\d+) "
)


def node_kinds(nodes: str, queues: str = "") -> list[NodeKind]:
    """Return the kinds of nodes of each queue that takes jobs, in the order of the queues.

    :param nodes: what :data:`NODES` printed.
    :param queues: what :data:`QUEUES` printed; empty where that is not known.
    """
    found = _json(nodes).get("nodes", {})
    known = _json(queues).get("Queue", {})
    usable = {
        name: queue
        for name, queue in known.items()
        if queue.get("queue_type", "Execution") == "Execution"
        and str(queue.get("enabled", "True")) == "True"
        and str(queue.get("started", "True")) == "True"
    }
    lists = {name: _queues_of(node) for name, node in found.items()}
    names = list(usable) or sorted({queue for queues_of in lists.values() for queue in queues_of}) or ["workq"]
    groups: dict[tuple[str, ...], set[str]] = {}
    out = set()
    for queue in names:
        wanted = usable.get(queue, {}).get("default_chunk", {})
        for name, node in found.items():
            if not _serves(node, lists[name], queue, wanted, known):
                continue
            resources = node.get("resources_available", {})
            if not int(resources.get("ncpus", 0)):
                # A host whose sockets are vnodes has nothing of its own.
                continue
            facts = (str(resources["ncpus"]), str(_mebibytes(resources.get("mem", ""))), str(resources.get("ngpus", 0)))
            groups.setdefault((queue, *facts), set()).add(_host(name))
            if any(word in str(node.get("state", "")) for word in _OUT):
                out.add(_host(name))
    limits = {name: str(queue.get("resources_max", {}).get("walltime", "")) for name, queue in usable.items()}
    return kinds_of(groups, out, limits)


def kinds_of_table(text: str) -> list[NodeKind]:
    """Return the kinds of nodes from the table of :data:`TABLE`, which names no queues.

    Memory is rounded there, to gb and tb.
    """
    groups: dict[tuple[str, ...], set[str]] = {}
    out = set()
    for match in filter(None, map(_ROW.match, text.splitlines())):
        if int(match["ncpus"]):
            facts = (match["ncpus"], str(_mebibytes(match["memory"].replace(" ", ""))), match["ngpus"])
            groups.setdefault(("workq", *facts), set()).add(_host(match["name"]))
        if any(word in match["state"] for word in _OUT):
            out.add(_host(match["name"]))
    return kinds_of(groups, out, {})


def _host(vnode: str) -> str:
    """Return the host of a vnode: ``n1`` of ``n1[0]``."""
    return vnode.partition("[")[0]


def _queues_of(node: Mapping[str, Any]) -> list[str]:
    """Return the queues to which a node is restricted: by the server, or by the usual resource ``Qlist``."""
    if node.get("queue"):
        return [str(node["queue"])]
    named = node.get("resources_available", {}).get("Qlist", "")
    return [name for name in (named if isinstance(named, str) else ",".join(named)).split(",") if name]


def _serves(
    node: Mapping[str, Any], queues: list[str], queue: str, wanted: Mapping[str, Any], known: Mapping[str, Any]
) -> bool:
    """Tell whether jobs of a queue run on a node.

    :param queues: the queues to which it is restricted.
    :param wanted: what each chunk of the queue's jobs asks for by default.
    :param known: all queues.
    """
    if node.get("queue"):
        return queue in queues
    asked = wanted.get("Qlist")
    if asked:
        return str(asked) in queues
    # Without such a default the resource's values are other names than those of queues.
    return not queues or queue in queues or bool(known and not set(queues) & set(known))


def _mebibytes(size: str) -> int:
    """Return a size of PBS in MiB; 0 for none.

    >>> _mebibytes("384000000kb"), _mebibytes("514260mb"), _mebibytes("1tb"), _mebibytes("")
    (375000, 514260, 1048576, 0)
    """
    match = re.fullmatch(r"(\d+)(b|kb|mb|gb|tb|pb)", str(size).lower())
    return int(int(match[1]) * _UNITS[match[2]] / 1024) if match else 0


def _json(text: str) -> Mapping[str, Any]:
    """Return the object in a text; empty for what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
