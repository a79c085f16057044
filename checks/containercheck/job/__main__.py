"""Run a program of the build step or of the job: ``python3 checks/containercheck/job PROGRAM ARGUMENTS``.

These programs use the standard library only, and Python 3.6 or newer: nodes have no ReFrame and no numpy. The package
is loaded from the directory of this file, even if another package has its name. The search path stays unchanged, as
programs that run here would inherit it.
"""

import importlib
import os
import sys
import types

#: Program: its module, and its function if that is not ``main``.
PROGRAMS = {
    "rounds": "rounds",
    "hostmpi": "host_mpi",
    "runtime": "runtime_start",
    "enter": "launch",
    "watch": "disturbance",
    "each-node": "processes:run_on_each_node",
    "containers": "processes:remove_containers_here",
    "place": "runtime_start:make_place",
    "neighbours": "neighbours",
    "observe": "observation",
    "inventory": "inventory",
    "load": "build.image_conversion:main_load",
    "machine": "build.machine",
}
#: Entries of caches: the module and its class, or a function that returns the entry (build/cache.py).
ENTRIES = {
    "image": "image_build:image_of",
    "ready": "image_files:Ready",
    "pull": "image_files:image_of_registry",
    "convert": "image_conversion:image_of",
    "venv": "downloads:PythonEnvironment",
    "jars": "downloads:Jars",
    "compile": "compiled:Program",
    "spack": "spack_install:SpackEnvironment",
    "easybuild": "easybuild_install:Module",
    "download": "downloads:Download",
}
#: Argument before the program, at sites that trust other users with their caches.
OWNERS = "--cache-owners="


def main():
    """Run the program that the first argument names.

    :raises SystemExit: there is no such program, or this Python is too old for it.
    """
    # No f-string before this: an older Python would report a syntax error instead of the message.
    if sys.version_info < (3, 6):
        sys.exit(
            "error: %s is Python %d.%d, and the checks need 3.6 or newer on the nodes: install one as python3, or name "
            "it: site's extras, python" % (sys.executable, sys.version_info[0], sys.version_info[1])
        )
    if len(sys.argv) > 1 and sys.argv[1].startswith(OWNERS):
        # All programs of the build step may need it (job/build/file_trees.py).
        os.environ["CONTAINERCHECK_CACHE_OWNERS"] = sys.argv.pop(1)[len(OWNERS) :]
    known = sorted(list(PROGRAMS) + list(ENTRIES))
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit("usage: python3 checks/containercheck/job {} ...".format("|".join(known)))
    load_package()
    # The next nights use these files too: the group must not be able to change them.
    os.umask(os.umask(0o077) | 0o022)
    # The node's locale may lack characters that programs print: escape these, so that no output is lost.
    sys.stdout = os.fdopen(sys.stdout.fileno(), "w", 1, sys.stdout.encoding, "backslashreplace", closefd=False)
    program = sys.argv.pop(1)
    sys.argv[0] = "containercheck {}".format(program)
    if program in ENTRIES:
        module, _, kind = ENTRIES[program].partition(":")
        cache = importlib.import_module("containercheck.job.build.cache")
        cache.provide(getattr(importlib.import_module("containercheck.job.build." + module), kind))
        return
    module, _, function = PROGRAMS[program].partition(":")
    getattr(importlib.import_module("containercheck.job." + module), function or "main")()


def load_package():
    """Load the package ``containercheck`` from the directory above this file's."""
    directory = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    init = os.path.join(directory, "__init__.py")
    package = types.ModuleType("containercheck")
    package.__path__, package.__file__ = [directory], init
    sys.modules[package.__name__] = package
    with open(init) as source:
        exec(compile(source.read(), init, "exec"), vars(package))


if __name__ == "__main__":
    main()
