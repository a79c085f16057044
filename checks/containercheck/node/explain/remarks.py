"""Remark on conditions that have cost others time or runs, and that did no harm today.

A remark fails nothing. Each names the sides that are concerned, what was seen and what to do; conditions of a healthy
node give none.
"""

from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from containercheck.node.explain.observations import Observation
from containercheck.node.explain.rules import FULL, INFINIBAND, devices_below
from containercheck.node.formatting import size

#: Bytes of locked memory below which libraries of InfiniBand cannot register their buffers (PRACE D12.6, 4.4.3).
LOCKED = 1 << 30
#: Setting of the Yama module from which on a process may not read another one's memory (ptrace_scope).
NO_SINGLE_COPY = 2


def locked_memory(seen: Observation) -> Iterator[str]:
    """Yield a remark where little memory may be locked on a node with InfiniBand."""
    limit = seen.limits.get("Max locked memory", "")
    if devices_below(seen, INFINIBAND) and limit.isdigit() and int(limit) < LOCKED:
        yield (
            f"only {size(int(limit))} of memory may be locked on a node with InfiniBand, whose libraries need more: "
            "raise the limit (ulimit -l) for jobs"
        )


def shared_memory(seen: Observation) -> Iterator[str]:
    """Yield a remark where /dev/shm is nearly full."""
    space = seen.space.get("/dev/shm")
    if space and space[1] < min(FULL, space[0] / 2):
        yield f"/dev/shm has {size(space[1])} free of {size(space[0])}: remove what killed runs left there"


def single_copy(seen: Observation) -> Iterator[str]:
    """Yield a remark where the kernel does not let ranks copy from one another."""
    scope = seen.kernel.get("ptrace_scope", "")
    if scope.isdigit() and int(scope) >= NO_SINGLE_COPY:
        yield (
            f"kernel.yama.ptrace_scope is {scope}: ranks of a node copy each message twice (no CMA); 0 or 1 lets them "
            "copy it once"
        )


def temporary_directory(seen: Observation) -> Iterator[str]:
    """Yield a remark where TMPDIR names no usable directory; a home that is not there is what some runtimes promise."""
    path = seen.environment.get("TMPDIR", "")
    state = seen.directories.get(path, "usable")
    if state != "usable":
        yield f"TMPDIR is {path}, which is {state}: bind it, or set TMPDIR to a directory that is there"


#: All remarks; each yields what is wrong with what one side saw.
REMARKS: Sequence[Callable[[Observation], Iterator[str]]] = (
    locked_memory,
    shared_memory,
    single_copy,
    temporary_directory,
)


def _of_node(seen: Optional[Observation]) -> List[str]:
    return [text for rule in REMARKS for text in rule(seen)] if seen else []


def remarks(sides: Mapping[str, Optional[Observation]]) -> List[str]:
    """Return what is wrong on a job's nodes, each once, with the sides and nodes that it concerns.

    :param sides: what each saw, by its label; None where it is not known.
    """
    concerned: Dict[str, List[str]] = {}
    for label, seen in sides.items():
        if not seen:
            continue
        known = _of_node(seen)
        for remark in known:
            concerned.setdefault(remark, []).append(label)
        for host in seen.nodes:
            for remark in (text for text in _of_node(seen.at(host)) if text not in known):
                concerned.setdefault(remark, []).append(f"{label} on {host}")
    return [f"{' and '.join(labels)}: {remark}" for remark, labels in concerned.items()]
