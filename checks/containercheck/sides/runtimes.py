"""Which container runtime runs the images of a partition, and how it is told what to do."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable

from reframe.core import containers
from reframe.core.containers import ContainerPlatform
from reframe.core.systems import SystemPartition

from containercheck.node import contract
from containercheck.sides.sides import Needs
from containercheck.site import extras

#: ReFrame's platform, and its command on the PATH, in the order of preference where a site says nothing.
COMMANDS = {
    "Apptainer": "apptainer",
    "Singularity": "singularity",
    "Sarus": "sarus",
    "Shifter": "shifter",
    "Docker": "docker",
}
#: Runtimes that can build an image from a definition file, and run one from a file.
BUILDERS = ("apptainer", "singularity")

#: How each platform is told to bind a directory.
_BIND = {
    "Docker": "-v={source}:{target}",
    "Sarus": "--mount=type=bind,source={source},destination={target}",
    "Shifter": "--volume={source}:{target}",
}


def find(partition: SystemPartition) -> str | None:
    """Return the name of ReFrame's platform for this partition, or None if there is no runtime.

    The site's ``container_platforms`` come first; without any, what is on the PATH counts.
    """
    if partition.container_runtime:
        return partition.container_runtime
    return next((name for name, command in COMMANDS.items() if shutil.which(command)), None)


def needs(partition: SystemPartition, platform: str | None) -> Needs:
    """Return what the site wants loaded for a platform: ReFrame loads it only for its own ``container_platform``."""
    environ = partition.container_environs.get(platform)
    return Needs(modules=tuple(environ.modules), variables=environ.env_vars) if environ else Needs()


def command_of(platform: str) -> str:
    """Return the command of a platform."""
    return COMMANDS.get(platform, platform.lower())


def has_image_files(platform: str) -> bool:
    """Tell whether a platform runs images that are files; others keep them where only they find them."""
    return command_of(platform) in BUILDERS


def starts_by_itself(platform: str) -> bool:
    """Tell whether the command of a platform starts the container itself; for others a daemon does."""
    return command_of(platform) in BUILDERS


def own_options(platform: str, side: str) -> list[str]:
    """Return the options that are ours, as shell words of a job's script.

    What the node's runtime needs is known there (node/job/runtime_start.py).
    Where a daemon runs the container, the runner finds it by its label.
    """
    label = [f"--label={contract.RUN}=${contract.RUN}"] if platform == "Docker" else []
    return [f"$(cat {contract.options_file(side)})", *label]


def bind_option(platform: str) -> str:
    """Return how the platform is told to bind, with ``{source}`` and ``{target}`` to be filled in."""
    return _BIND.get(platform, "-B{source}:{target}")


def bind_options(platform: str, binds: Iterable[str]) -> list[str]:
    """Return the options, quoted, that bind a site's own files and directories.

    :param binds: each ``path``, or ``path:target`` for another place in the container.
    """
    option = bind_option(platform)
    return [shlex.quote(option.format(source=source, target=target)) for source, target in extras.bound(binds)]


def name_of_kept(platform: str, name: str) -> str:
    """Return what the platform is told to run, of an image that it keeps itself, in the words of a job's script."""
    # For a name every rank would ask the gateway; and a tag may lead to another image by then.
    return f"id:$(cat {contract.IMAGE_ID})" if platform == "Shifter" else name


class Shifter(containers.Shifter):
    """Shifter, as NERSC makes it: the one that ReFrame writes commands for became Sarus.

    It keeps the working directory, and binds directories only.
    """

    def launch_command(self, stagedir: str) -> str:
        """Return the command that runs ``command`` in the image."""
        binds = [*self.mount_points, (stagedir, self.mount_stagedir)]
        words = [f"--image={self.image}", *(f'--volume="{source}:{target}"' for source, target in binds)]
        return " ".join([self._command, *words, *self.options, self.command])


def create(platform: str, command: str) -> ContainerPlatform:
    """Return a new platform object of ReFrame's.

    :param command: what to type for the runtime: its name, or the path of one version of several.
    """
    made = Shifter() if platform == "Shifter" else ContainerPlatform.create(platform)
    for attribute in ("_launch_command", "_command"):
        # ReFrame has no setting for it.
        if hasattr(made, attribute):
            setattr(made, attribute, shlex.quote(command))
    return made
