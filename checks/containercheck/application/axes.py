"""Axes that several applications share: of which release the image is, where it lies, and where the files lie."""

import os
import secrets

from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.pipeline import RegressionTestPlugin

from containercheck.site import node_commands, releases, sites

#: What a plain run takes of the axes in this file; a check says the same of its own in ``plain``.
PLAIN = {"image_in": "shared", "file_system": "stage", "image_release": "fitting"}
#: Directory in the stage directory with an image that is unpacked.
UNPACKED = "image.unpacked"
#: Those of them that say something of the image: a bare run, which has none, has their plain values only.
OF_IMAGE = ("image_in", "image_release")


def own_directory(directory: str) -> str:
    """Return a directory of a job alone, in one that all users share: made in the job (node/job/own_directories.py).

    Nobody can foresee its name, and so make it first.
    """
    return f"{directory}/containercheck-{os.geteuid()}-{secrets.token_hex(8)}"


class ImagePlacement(RegressionTestPlugin):
    """Adds the place of the image to a check: ``class MyCode(ContainerCheck, ImagePlacement)``.

    D12.6 section 9: in memory, or on a shared file system.
    """

    #: Where the image lies: in the cache, which all nodes share, in the node's memory, or as a directory of its files.
    image_in = parameter(["shared", "ram", "unpacked"], loggable=True)

    @run_after("init")
    def choose_place(self):
        """Shared memory is a directory too."""
        self.image_directory = "/dev/shm" if self.image_in == "ram" else ""
        self.unpacked = self.image_in == "unpacked"


class FilePlacement(RegressionTestPlugin):
    """Adds the file system that an application works on: ``class MyCode(ContainerCheck, FilePlacement)``.

    The check finds its ``directory``, which is the same in a container, and ``own_file``, a path on it that no other
    job has; the job removes that in the end.
    """

    #: ``stage``, or a name of the site's extras, file_systems.
    file_system = parameter(["stage", *sites.file_systems()], loggable=True)

    @run_after("setup")
    def find_directory(self):
        """Skip where the partition does not have this file system."""
        self.directory = "."
        if self.file_system != "stage":
            # Not the check's own ``site``: this hook comes before the one that reads it.
            site = sites.Site.of(self.current_partition)
            offered = site.file_systems or {}
            if self.file_system not in offered:
                self.skip_because(f"{site.partition} has no {self.file_system}")
            self.directory = str(sites.path_of(offered[self.file_system]))
        self._own_directory = own_directory(self.directory)
        self.own_file = f"{self._own_directory}/file"

    @run_before("run")
    def bind_directory(self):
        """Bind it at its own place, and have the file's directory made and removed."""
        if self.contained and self.file_system != "stage":
            self.binds = [*self.binds, self.directory]
        make = node_commands.in_job(sites.Site.of(self.current_partition), "place", self._own_directory)
        self.input_commands = [make, *self.input_commands]
        self.own_files = [*self.own_files, self._own_directory]


class ReleaseOfImage(RegressionTestPlugin):
    """Adds the Debian that the image is of to a check: how an image fares on hosts of another age."""

    #: ``fitting``: the one that is chosen for the partition's hosts (see site/releases.py), or a code name.
    image_release = parameter(["fitting", *releases.IMAGES], loggable=True)

    @run_after("init")
    def choose_release(self):
        """A value of the axis is what ``-S release`` sets."""
        if self.image_release != "fitting":
            self.release = self.image_release
