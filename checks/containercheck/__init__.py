"""Check with ReFrame that a container runs as fast as bare metal, and gives the same answers.

An application file imports the names in ``__all__`` from here. A module is imported at the first use of one of its
names (PEP 562): nodes (``containercheck.job``) and reports need no ReFrame.
"""

import functools
import importlib
import sys

#: Oldest Python of a session; ``containercheck.job`` on nodes runs with an older one.
OLDEST_PYTHON = (3, 10)
#: The oldest ReFrame that will do, and the one that is tested with.
OLDEST_REFRAME, TESTED_REFRAME = (4, 10), "4.10.4"

#: The names that application files use, by the module that defines them.
_NAMES = {
    "application.axes": "FilePlacement ImagePlacement RanksPerNode ImageRelease ThreadsPerRank",
    "application.declare": "RUN_BEGAN STDERR STDOUT Answer Metric Identity Neighbour Step Work by_ratio seconds_of "
    "side_by_side skip_unless skip_without_threads",
    "check.base": "ContainerCheck SingleNodeCheck",
    "check.collocation": "MIXES WHOLE CollocationSides",
    "check.variants": "StaticMpiSides",
    "job.architectures": "ARCHITECTURES",
    "job.mpi": "MPI_FAMILIES",
    "sides.sides": "Candidate",
    "site.sites": "core_counts instruction_sets node_counts partitions_with_gpus partitions_with_instructions",
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


# Nodes have an older Python than functools.cache.
@functools.lru_cache(maxsize=None)
def require_reframe():
    """Exit with one line if ReFrame is too old for the library, or if the site file has a mistake.

    ReFrame only warns about other exceptions. The session would then have no tests, and pass.

    :raises SystemExit: the message names the problem.
    """
    import reframe

    if tuple(int(part) for part in reframe.VERSION.split(".")[:2]) < OLDEST_REFRAME:
        sys.exit(
            f"containercheck: ReFrame {reframe.VERSION} is too old: run 'pip install reframe-hpc=={TESTED_REFRAME}'"
        )
    from containercheck import reframe_internals
    from containercheck.site import sites

    try:
        sites.current()
    except sites.SiteError as error:
        sys.exit(f"containercheck: {error}")
    reframe_internals.listen(_shown)


def _shown(testcase):
    """Return the line of a case that has ended, and why it failed, as a session shows it."""
    # Not before: a listing needs none of this.
    from containercheck.report.view import CaseView
    from containercheck.results.cases import collect

    return CaseView(sys.stdout.isatty()).ended(collect([{"runs": [{"testcases": [testcase]}]}])[0])


def __getattr__(name):
    """Import a name that an application file uses.

    :raises AttributeError: there is no such name.
    :raises SystemExit: Python or ReFrame is too old, or the site file has a mistake; the message is one line.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_python()
    require_reframe()
    module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    return getattr(module, _SHORTER.get(name, name))
