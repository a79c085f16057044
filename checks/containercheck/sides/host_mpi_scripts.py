"""Return the scripts that run a command in a container with the host's MPI; without side effects."""

from __future__ import annotations

from containercheck.node import contract

#: Puts the host's MPI before the image's own LD_LIBRARY_PATH, which only a process in the container knows.
_ENTRY = 'export LD_LIBRARY_PATH={links}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\nexec "$@"'
#: Makes the loader in the container list the libraries of a program. For a script, it only preloads the host's MPI into
#: the shell: the program that the script starts is known only when it runs.
_LOOKUP = """\
if ! program=$(command -v "$1"); then echo "$1: not found"; exit 127; fi
IFS= read -r first <"$program"
case $first in
    ?ELF*) exec env LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes "$program" ;;
    *) echo "{script} $program"
       exec env LD_PRELOAD={library} LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes /bin/sh -c : ;;
esac"""


def entry(links: str) -> str:
    """Return the script that runs a command with the host's MPI.

    :param links: directory of the links to it, in the container.
    """
    return _ENTRY.format(links=links)


def lookup(library: str) -> str:
    """Return the script that makes the loader list the libraries of a program.

    :param library: path of the host's MPI in the container.
    """
    return _LOOKUP.format(script=contract.IS_SCRIPT, library=library)
