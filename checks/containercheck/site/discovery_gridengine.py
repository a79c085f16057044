"""The queues of a cluster as Grid Engine prints them: ``qhost -q``, ``qconf -sq`` (qconf(1), queue_conf(5))."""

from __future__ import annotations

import re
from collections.abc import Mapping

from containercheck.site.discovery import NodeKind, kinds_of

#: Command that prints hosts with their queues.
HOSTS = ("qhost", "-q")
#: Command that prints the configuration of all queues.
QUEUES = ("qconf", "-sq", "*")
#: Parallel environments that are no way to start ranks of MPI on several nodes.
_NO_MPI = ("make", "NONE")


def node_kinds(hosts: str, queues: str = "") -> list[NodeKind]:
    """Return the kinds of nodes of each queue, in the order in which hosts name them.

    :param hosts: what :data:`HOSTS` printed.
    :param queues: what :data:`QUEUES` printed.
    """
    groups: dict[tuple[str, ...], set[str]] = {}
    out = set()
    columns: list[str] = []
    facts: tuple[str, ...] = ()
    name = ""
    for line in hosts.splitlines():
        words = line.split()
        if line.startswith("HOSTNAME"):
            columns = words
        elif columns and words and not line.startswith((" ", "-", "global")):
            row = dict(zip(columns, words))
            name, number = row["HOSTNAME"], row.get("NCPU", "-")
            if number == "-":
                # An execution daemon that does not answer.
                facts = ()
                continue
            facts = (number, str(_mebibytes(row.get("MEMTOT", ""))), "0", *(_shape(row)))
        elif facts and words and line.startswith(" "):
            # A queue of the host above: name, type, used and all slots, states. P of the type is for parallel jobs.
            queue, states = words[0], words[3] if len(words) > 3 else ""
            groups.setdefault((queue, *facts), set()).add(name)
            if set(states) & set("aduDEs"):
                out.add(name)
    limits = {queue: limit for queue, limit in _values(queues, "h_rt").items() if limit != "INFINITY"}
    return kinds_of(groups, out, limits)


def parallel_environments(queues: str) -> dict[str, list[str]]:
    """Return the parallel environments of each queue, those for MPI first.

    :param queues: what :data:`QUEUES` printed.
    """
    lists = {queue: re.split(r"[ ,]+", text) for queue, text in _values(queues, "pe_list").items()}
    return {
        queue: sorted((name for name in names if name not in _NO_MPI), key=lambda name: "mpi" not in name.lower())
        for queue, names in lists.items()
    }


def _values(queues: str, key: str) -> dict[str, str]:
    """Return the value of a key for each queue, without exceptions for hosts, which follow in brackets."""
    found: dict[str, str] = {}
    queue = ""
    # A backslash continues a line.
    for line in queues.replace("\\\n", " ").splitlines():
        name, _, value = line.partition(" ")
        if name == "qname":
            queue = value.strip()
        elif name == key and queue:
            found[queue] = re.sub(r",?\[.*?\]", "", value).strip()
    return found


def _shape(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return sockets, cores of a socket and threads of a core, where qhost has the columns (since 6.2u5: ``-cb``)."""
    numbers = [row.get(column, "-") for column in ("NSOC", "NCOR", "NTHR")]
    if not all(number.isdigit() and int(number) for number in numbers):
        return ()
    sockets, cores, threads = map(int, numbers)
    # NCOR counts the cores of the host, and NTHR its hardware threads.
    return str(sockets), str(max(1, cores // sockets)), str(max(1, threads // cores))


def _mebibytes(size: str) -> int:
    """Return a size of qhost in MiB; 0 for none.

    >>> _mebibytes("23.5G"), _mebibytes("512.0M"), _mebibytes("-")
    (24064, 512, 0)
    """
    match = re.fullmatch(r"([\d.]+)([KMGT])", size)
    units = {"K": 1 / 1024, "M": 1, "G": 1 << 10, "T": 1 << 20}
    return int(float(match[1]) * units[match[2]]) if match else 0
