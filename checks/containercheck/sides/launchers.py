"""Find the container runtime of a partition, and the launchers that start the ranks of a program there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from reframe.core.backends import getlauncher
from reframe.core.launchers import JobLauncher
from reframe.core.schedulers import Job
from reframe.core.systems import SystemPartition

from containercheck.job import container_runtimes, contract
from containercheck.job.container_runtimes import Runtime
from containercheck.sides.sides import Launcher, Needs
from containercheck.site import jobs, node_commands
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Command after which Open MPI hands all variables on to ranks that it starts over ssh, as Slurm's launcher does. By
#: itself it hands on its own variables only (mpirun(1), "Exported Environment Variables").
HAND_ON = f"export {contract.MPIRUN_HANDS_ON}=$(compgen -e | paste -sd ';')"


def find_runtime(partition: SystemPartition, way: str = "", platform: str = contract.FIRST_PLATFORM) -> Runtime | None:
    """Return the container runtime of a partition, or None if there is none.

    The site's ``container_platforms`` come first; without any, the first runtime on the PATH is taken.

    :param way: its way to run images; empty for its usual one.
    :param platform: one of ``container_platforms``; by default the partition's default.
    :raises LayoutError: it has no such way.
    """
    named = partition.container_runtime if platform == contract.FIRST_PLATFORM else platform
    runtime = container_runtimes.by_name(named) if named else next(container_runtimes.on_path(), None)
    if runtime is None:
        return None
    try:
        return runtime.in_way(way)
    except KeyError:
        raise LayoutError(f"{runtime.title} has no way {way} to run images") from None


def runtime_needs(partition: SystemPartition, runtime: Runtime | None) -> Needs:
    """Return modules and variables of a runtime: ReFrame loads these only for its own ``container_platform``."""
    environ = partition.container_environs.get(runtime.name) if runtime else None
    return Needs(modules=tuple(environ.modules), variables=environ.env_vars) if environ else Needs()


def partition_launcher(job: Job, site: Site, layout: Layout, options: Sequence[str] = ()) -> Launcher:
    """Return the partition's own launcher of MPI programs; ReFrame's built-in system has none, and gets mpirun.

    :param options: further options.
    """
    launcher = getlauncher("mpirun")() if job.launcher.registered_name == "local" else job.launcher
    return _started_by(launcher, job, layout, options, site.mpi_family)


def family_launcher(family: str, job: Job, site: Site, layout: Layout, options: Sequence[str] = ()) -> Launcher:
    """Return the launcher of programs for another family of MPI, with the host's library of that family.

    :param family: a key of ``mpi.FAMILIES``.
    :param options: further options.
    """
    libmpi = getattr(site, f"host_{family}")
    lend = node_commands.in_job(site, "hostmpi", "lend", *([f"--libmpi={libmpi}"] if libmpi else []), family)
    needs = Needs(
        before=(f"export LD_LIBRARY_PATH=$PWD/{contract.BARE_MPI_LINKS}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",),
        prepare=(lend,),
    )
    # Both sides have this launcher: its own rules bind them alike.
    launcher = own_launcher(family, job, site, layout, options, bound=False)
    return Launcher(launcher.words, needs + launcher.needs, layout.ranks)


def own_launcher(
    family: str, job: Job, site: Site, layout: Layout, options: Sequence[str] = (), bound: bool = True
) -> Launcher:
    """Return the launcher of programs that bring an MPI of another family than the partition's.

    :param family: a key of ``mpi.FAMILIES``.
    :param options: further options.
    :param bound: whether Hydra gets options to bind ranks.
    """
    site_options = getattr(site, f"{family}_launcher_options", None)
    if site_options is None and family == "mpich":
        # Hydra, the launcher of MPICH and its derivatives, finds the nodes of the job by itself under most schedulers.
        words = ["mpiexec.hydra", f"-n {layout.ranks}", f"-ppn {layout.ranks_per_node}", *options]
        words += layout.bound_by("mpiexec", family) if bound else []
        return Launcher(" ".join(words), ranks=layout.ranks)
    return _started_by(job.launcher, job, layout, [*(site_options or site.image_launcher_options), *options], family)


def _started_by(launcher: JobLauncher, job: Job, layout: Layout, options: Sequence[str], family: str) -> Launcher:
    usual = launcher.options
    # The launcher reads these values from the job, and ReFrame sets them only later.
    job.num_tasks = layout.ranks
    job.num_tasks_per_node = layout.ranks_per_node
    job.num_cpus_per_task = layout.threads
    # Jobs run as the user of the session.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    by_list = jobs.has_list(job, layout.nodes)
    # Each side may have different options, so the job's launcher gets back its own.
    launcher.options = [*usual, *options, *layout.bound_by(launcher.registered_name, family, by_list)]
    words, launcher.options = launcher.run_command(job), usual
    # Open MPI refuses its option -x together with the list.
    hands_on = by_list and family == "openmpi" and not re.search(r"\s-x\s", words)
    return Launcher(words, Needs(variables=root), layout.ranks, HAND_ON if hands_on else "")


def reach_nodes(job: Job, site: Site, layout: Layout) -> list[str]:
    """Return the command that lets programs of the job start others on all of its nodes; none without a list.

    See job/processes.py.
    """
    if not jobs.has_list(job, layout.nodes):
        return []
    once = _started_by(job.launcher, job, Layout(layout.nodes, 1, 1, "none"), [], site.mpi_family)
    return node_commands.exports({contract.EACH_NODE: once.words})
