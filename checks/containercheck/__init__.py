"""ReFrame checks that a container runs as fast as bare metal, and gives the same answers.

An application file imports the names in ``__all__`` from here. Nothing is imported before it is asked for (PEP 562):
what runs on nodes (``containercheck.node``) has no ReFrame there, and reports need none.
"""

import importlib
import sys

#: Oldest Python of a session; what runs on nodes does with an older one.
OLDEST_PYTHON = (3, 9)

#: Where each name that application files use is defined.
_MODULES = {
    "RUN_BEGAN": "application.facts",
    "STDERR": "application.facts",
    "STDOUT": "application.facts",
    "Answer": "application.facts",
    "Figure": "application.facts",
    "Identity": "application.facts",
    "Step": "application.facts",
    "Work": "application.facts",
    "Neighbour": "application.facts",
    "by_ratio": "application.facts",
    "seconds_of": "application.facts",
    "side_by_side": "application.facts",
    "skip_unless": "application.facts",
    "skip_without_threads": "application.facts",
    "SITES": "software.licensed",
    "Candidate": "sides.sides",
    "CollocationSides": "sides.collocation",
    "StaticMpiSides": "sides.static_mpi",
    "FilePlacement": "application.axes",
    "ImagePlacement": "application.axes",
    "RanksOnNode": "application.axes",
    "ReleaseOfImage": "application.axes",
    "ThreadsOfRank": "application.axes",
    "ContainerCheck": "check",
    "OneNodeCheck": "check",
}

__all__ = sorted(_MODULES)


def require_python():
    """Stop where this Python is too old for a session, before a file is imported that it cannot compile.

    :raises SystemExit: it says so in one line.
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
    :raises SystemExit: Python or ReFrame is too old, or the site file has a mistake; it says so in one line.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_python()
    importlib.import_module(__name__ + ".loading").require()
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
