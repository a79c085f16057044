"""Check with ReFrame that a container runs as fast as bare metal, and gives the same answers.

An application file imports the names in ``__all__`` from here. A module is imported at the first use of one of its
names (PEP 562): nodes (``containercheck.job``) and reports need no ReFrame.
"""

import importlib
import sys

#: Oldest Python of a session; ``containercheck.job`` on nodes runs with an older one.
OLDEST_PYTHON = (3, 10)

#: The names that application files use, by the module that defines them.
_NAMES = {
    "application.axes": "FilePlacement ImagePlacement RanksPerNode ImageRelease ThreadsPerRank",
    "application.declare": "RUN_BEGAN STDERR STDOUT Answer Metric Identity Neighbour Step Work by_ratio seconds_of "
    "side_by_side skip_unless skip_without_threads",
    "check.base": "ContainerCheck SingleNodeCheck",
    "check.collocation": "MIXES WHOLE CollocationSides",
    "check.variants": "StaticMpiSides",
    "job.architectures": "ARCHITECTURES",
    "job.contract": "UNPACKED",
    "job.mpi": "MPI_FAMILIES",
    "sides.sides": "Candidate",
    "site.sites": "core_counts instruction_sets node_counts partitions_with_instructions",
    "software.host": "SITES ask_program",
    "software.provision": "Misconfigured Unavailable",
    "software.images": "native_instructions portable_instructions",
}
#: Names that are shorter in their module.
_SHORTER = {
    "ARCHITECTURES": "KNOWN",
    "MPI_FAMILIES": "FAMILIES",
    "native_instructions": "native_kernels",
    "portable_instructions": "portable_kernels",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_PLACES)


def require_python():
    """Exit if this Python is too old for a session, before the import of a file that it cannot compile.

    :raises SystemExit: this Python is too old; the message is one line.
    """
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            "containercheck: Python {}.{} is too old, {}.{} or newer is needed: call ReFrame and this command with "
            "another one; ci/setup makes an environment with the newest that is on the PATH".format(
                *sys.version_info[:2], *OLDEST_PYTHON
            )
        )


def __getattr__(name):
    """Import a name that an application file uses.

    :raises AttributeError: there is no such name.
    :raises SystemExit: Python or ReFrame is too old, or the site file has a mistake; the message is one line.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_python()
    importlib.import_module(__name__ + ".loading").require()
    module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    return getattr(module, _SHORTER.get(name, name))
