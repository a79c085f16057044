"""Define axes of several applications: release and place of the image, file system, ranks and threads of a node."""

from __future__ import annotations

import os
import secrets

from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.pipeline import RegressionTestPlugin

from containercheck.job import contract
from containercheck.site import extras, node_commands, sites

#: Values of the axes in this file in a default run; a check states those of further axes in ``plain``.
PLAIN = {
    "image_in": "shared",
    "file_system": "stage",
    "image_release": "fitting",
    "ranks": 0,
    "openmp": 1,
    contract.PLATFORM: contract.FIRST_PLATFORM,
}
#: Axes that concern the image: a bare run, which has none, has their plain values only. So have the others of them if a
#: runtime is not the partition's default.
OF_IMAGE = ("image_in", "image_release", contract.PLATFORM)
#: Value of ``openmp``: threads of a rank for all cores that the ranks of a node leave.
ALL_CORES = "all"


def own_directory(directory: str) -> str:
    """Return the path of a directory for a job alone, in a shared one; the job makes it (job/runtime_start.py).

    Its name cannot be guessed, so that no other user can make it first.
    """
    return f"{directory}/containercheck-{os.geteuid()}-{secrets.token_hex(8)}"


class ImagePlacement(RegressionTestPlugin):
    """Add the place of the image to a check: ``class MyCode(ContainerCheck, ImagePlacement)``.

    D12.6 section 9: in memory, or on a shared file system.
    """

    #: Place of the image: in the cache, which all nodes share, in the node's memory, or unpacked in a directory.
    image_in = parameter(["shared", "ram", "unpacked"], loggable=True)

    @run_after("init")
    def choose_place(self) -> None:
        """Set the directory of the image, and the way of the runtime for an unpacked one."""
        self.image_directory = "/dev/shm" if self.image_in == "ram" else ""
        self.way = "unpacked" if self.image_in == "unpacked" else ""


class FilePlacement(RegressionTestPlugin):
    """Add the file system that an application works on: ``class MyCode(ContainerCheck, FilePlacement)``.

    The check gets its ``directory``, which has the same path in a container, and ``own_file``. This path in the
    directory is for this job alone; the job removes the file when it ends.
    """

    #: ``stage``, or a name of the site's extras, file_systems.
    file_system = parameter(["stage", *sites.file_systems()], loggable=True)
    binds: list[str]
    input_commands: list[str]
    own_files: list[str]

    @run_after("setup")
    def find_directory(self) -> None:
        """Set the directories on this file system; skip if the partition does not have it."""
        self.directory = "."
        if self.file_system != "stage":
            # The check's own ``site`` is set by a later hook.
            site = sites.Site.of(self.current_partition)
            offered = site.file_systems or {}
            if self.file_system not in offered:
                self.skip_because(f"{site.partition} has no {self.file_system}")
            self.directory = str(extras.path_of(offered[self.file_system]))
        self._own_directory = own_directory(self.directory)
        self.own_file = f"{self._own_directory}/file"

    @run_before("run")
    def bind_directory(self) -> None:
        """Bind the file system at its own path, and make and remove the directory of the file."""
        if self.contained and self.file_system != "stage":
            self.binds = [*self.binds, self.directory]
        make = node_commands.in_job(sites.Site.of(self.current_partition), "place", self._own_directory)
        self.input_commands = [make, *self.input_commands]
        self.own_files = [*self.own_files, self._own_directory]


class ImageRelease(RegressionTestPlugin):
    """Add the Debian release of the image to a check: how an image works on older and newer hosts."""

    #: ``fitting`` for the release that suits the partition's hosts (see site/hosts.py), or a code name.
    image_release = parameter(["fitting", *sites.RELEASES], loggable=True)

    @run_after("init")
    def choose_release(self) -> None:
        """Set ``release`` to the value of the axis, as ``-S release`` would."""
        if self.image_release != "fitting":
            self.release = self.image_release


class RanksPerNode(RegressionTestPlugin):
    """Add the number of ranks on a node to a check: how it scales within one."""

    #: Ranks on a node; 0 for one on each core, or for each group of ``threads`` cores.
    ranks = parameter([0, *sites.core_counts()], loggable=True)
    ranks_per_node: int | None

    @run_after("init")
    def choose_ranks(self) -> None:
        """Set the ranks of a node; without this axis ``-S ranks_per_node`` counts."""
        self.ranks_per_node = self.ranks or self.ranks_per_node


class ThreadsPerRank(RegressionTestPlugin):
    """Add the OpenMP threads of a rank to a check: the mixes of ranks and threads that fill a node.

    D12.6 section 8.1.2 and 8.1.3 have few ranks with as many threads as fit. D12.5 section 3.3.1 has 8 ranks with 6
    threads each. Use it with :class:`RanksPerNode`, or with the check's own axis of ranks.
    """

    #: Threads of a rank; ``all`` for as many as fill the node, with one rank if nothing else sets the ranks.
    openmp = parameter([1, ALL_CORES], loggable=True)
    ranks_per_node: int | None

    @run_after("init")
    def choose_threads(self) -> None:
        """Set the threads of a rank, and one rank on a node if nothing else sets the ranks."""
        if self.openmp == ALL_CORES:
            self.threads, self.ranks_per_node = 0, self.ranks_per_node or 1
