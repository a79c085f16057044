"""A cluster as the scheduler of this host tells it: Slurm, PBS, Grid Engine or Flux, whichever answers first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from containercheck.node import inventory
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.site import discovery, discovery_flux, discovery_gridengine, discovery_pbs
from containercheck.site.discovery import NodeKind


@dataclass(frozen=True)
class Cluster:
    """What a scheduler tells.

    :ivar scheduler: name for people.
    :ivar command: command that it was read from.
    :ivar backend: ReFrame's name of the scheduler.
    :ivar kinds: kinds of nodes, by partition or queue.
    :ivar environments: parallel environments of Grid Engine, by queue.
    :ivar note: what else there is to say about the backend; empty for nothing.
    """

    scheduler: str
    command: str
    backend: str
    kinds: Sequence[NodeKind]
    environments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str = ""

    def access(self, kind: NodeKind) -> list[str]:
        """Return the options with which a job gets onto nodes of a kind, as ReFrame writes them into a job."""
        if self.scheduler == "Slurm":
            feature = discovery.distinguishing(kind, self.kinds) if kind.others else ""
            return [f"--partition={kind.partition}"] + ([f"--constraint={feature}"] if feature else [])
        if self.scheduler == "Flux":
            return [] if kind.partition == "default" else [f"--queue={kind.partition}"]
        return [f"-q {kind.partition}"]

    @property
    def gpu_option(self) -> str:
        """Return the option that asks for GPUs, with ReFrame's placeholder; empty where sites name it differently."""
        options = {"Slurm": "--gres=gpu:{num_gpus_per_node}", "PBS": "ngpus={num_gpus_per_node}"}
        return options.get(self.scheduler, "")


def find(scheduler: str | None = None) -> Cluster | None:
    """Return the cluster that this host is part of; None where no scheduler answers.

    :param scheduler: ReFrame's name of the one to ask; by default the first that answers.
    """
    known = {"slurm": _slurm, "pbs": _pbs, "sge": _grid_engine, "flux": _flux}
    asked = [known[scheduler]] if scheduler else list(known.values())
    return next(filter(None, (ask() for ask in asked)), None)


def _output(words: Sequence[str]) -> str:
    status, output = inventory.output_of(words)
    return output if status == 0 else ""


def _slurm() -> Cluster | None:
    kinds = discovery.node_kinds(_output(discovery.NODES), _output(discovery.LIMITS))
    if not kinds:
        return None
    accounted = inventory.output_of(["sacct", "--noheader", "--allocations"])[0] == 0
    note = f"sacct {'answers' if accounted else 'does not answer'}"
    return Cluster("Slurm", "sinfo", "slurm" if accounted else "squeue", kinds, note=note)


def _pbs() -> Cluster | None:
    kinds = discovery_pbs.node_kinds(_output(discovery_pbs.NODES), _output(discovery_pbs.QUEUES))
    if kinds:
        return Cluster("PBS", "pbsnodes -F json, qstat -Qf", "pbs", kinds)
    kinds = discovery_pbs.kinds_of_table(_output(discovery_pbs.TABLE))
    note = "pbsnodes -aSj names no queues: write yours into access, and a partition for each"
    return Cluster("PBS", "pbsnodes -aSj", "pbs", kinds, note=note) if kinds else None


def _grid_engine() -> Cluster | None:
    queues = _output(discovery_gridengine.QUEUES)
    kinds = discovery_gridengine.node_kinds(_output(discovery_gridengine.HOSTS), queues)
    environments = discovery_gridengine.parallel_environments(queues)
    return Cluster("Grid Engine", "qhost -q, qconf -sq", "sge", kinds, environments) if kinds else None


def _flux() -> Cluster | None:
    kinds = discovery_flux.node_kinds(_output(discovery_flux.RESOURCES))
    note = "needs Flux's Python bindings in the Python of ReFrame"
    return Cluster("Flux", "flux resource list", "flux", kinds, note=note) if kinds else None


#: Modules of container runtimes, by their name, with the suffixes of editions; and modules of MPI.
RUNTIME_MODULES = {runtime.name: rf"{re.escape(runtime.name)}(-?(ce|pro))?" for runtime in RUNTIMES}
_MPI_MODULE = re.compile(
    r"(.*/)?(openmpi|ompi|mpich|impi|intel-?mpi|mvapich2?|cray-mpich|hpcx|spectrum-mpi)(/|$)", re.I
)


def modules(listed: str) -> tuple[dict[str, str], list[str]]:
    """Return the newest module of each container runtime, by platform, and all modules of MPI.

    :param listed: output of ``module -t avail``: a name a line; directories of modules end with a colon.
    """
    names = [line.strip() for line in listed.splitlines() if line.strip() and not line.strip().endswith((":", "/"))]
    # Marks of the module system: (default), <L>, @ of an alias.
    names = [re.sub(r"[(<].*|@$", "", name).strip() for name in names]
    runtimes = {}
    for platform, pattern in RUNTIME_MODULES.items():
        found = [name for name in names if re.match(rf"(.*/)?{pattern}(/|$)", name, re.I)]
        if found:
            runtimes[platform] = max(found, key=_version)
    return runtimes, [name for name in dict.fromkeys(names) if _MPI_MODULE.match(name)]


def _version(module: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", module)]


def available_modules() -> tuple[dict[str, str], list[str]]:
    """Return what :func:`modules` finds on this host, in a login shell."""
    _, output = inventory.output_of(["bash", "-lc", "module -t avail 2>&1"])
    return modules(output)
