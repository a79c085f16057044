"""Runs a program of the build step or of the job: ``python3 checks/containercheck PROGRAM ARGUMENTS``.

These programs use the standard library only, and Python 3.6 or newer: nodes have no ReFrame and no numpy. Their modules
import each other as ``containercheck.<room>``, as everywhere; the package is made here without its ``__init__``, which
is for the checks and needs ReFrame.
"""

import importlib
import os
import sys
import types

#: Program: its module.
PROGRAMS = {
    "rounds": "job.rounds",
    "hostmpi": "job.hostmpi",
    "runtime": "job.runtime",
    "ranks": "job.ranks",
    "watch": "job.nodes",
    "place": "job.places",
    "surroundings": "job.surroundings",
    "image": "build.images",
    "pull": "build.registry",
    "venv": "build.venvs",
    "jars": "build.jars",
    "compile": "build.compiled",
    "debian-packages": "build.debian",
    "spack": "build.spack",
    "easybuild": "build.easybuild",
    "download": "build.downloads",
    "machine": "build.machine",
    "clean": "build.cleaning",
}
#: What stands before the program where the site trusts others with its caches.
OWNERS = "--cache-owners="


def main():
    """Run the program that the first argument names.

    :raises SystemExit: there is no such program, or this Python is too old for it.
    """
    # No f-string before this: to an older Python it is a syntax error, and no message.
    if sys.version_info < (3, 6):
        sys.exit(
            "error: %s is Python %d.%d, and the checks need 3.6 or newer on the nodes: install one as python3, or name "
            "it: site's extras, python" % (sys.executable, sys.version_info[0], sys.version_info[1])
        )
    if len(sys.argv) > 1 and sys.argv[1].startswith(OWNERS):
        # Of all programs of the build step: see build/ownership.py.
        os.environ["CONTAINERCHECK_CACHE_OWNERS"] = sys.argv.pop(1)[len(OWNERS) :]
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit("usage: python3 checks/containercheck {} ...".format("|".join(sorted(PROGRAMS))))
    package = types.ModuleType("containercheck")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["containercheck"] = package
    # What is built and run here is used on the next night too, and the group need not be able to change it.
    os.umask(os.umask(0o077) | 0o022)
    program = sys.argv.pop(1)
    sys.argv[0] = "containercheck {}".format(program)
    importlib.import_module("containercheck." + PROGRAMS[program]).main()


if __name__ == "__main__":
    main()
