"""Return shell commands for the build step and the job, some of which run the programs of ``containercheck.job``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping

from containercheck.job import contract, variables
from containercheck.job.contract import PACKAGE
from containercheck.site.sites import Site

#: Directory that Python runs as the command of all these programs.
PROGRAMS = str(PACKAGE / "job")
#: Shell function that begins a named step, and prints the wall-clock seconds of the previous one.
PHASE = r"""phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}"""

#: Shell function that starts a program at the same time as others, and keeps its output, its status, its start and its
#: end. The first of two mpirun of Open MPI 4 to end removes the directory of their files, if they share one.
BESIDE = r"""beside() {
    name=$1
    shift
    rm -f "$name.times"
    {
        export OMPI_MCA_orte_tmpdir_base=$(mktemp -d)
        began=$(date +%s.%N)
        "$@" >"$name.out" 2>&1
        status=$?
        echo "$began $(date +%s.%N) $status" >"$name.times"
        rm -rf "$OMPI_MCA_orte_tmpdir_base"
    } &
}"""


class CacheCommand(str):
    """Hold a command of the build step that provides an entry of a cache, and does nothing else.

    :ivar words: arguments of Python in it, with which the same program runs elsewhere.
    """

    words: tuple[str, ...]

    def __new__(cls, python: str, words: tuple[str, ...]) -> CacheCommand:
        """Return the command for a Python, which is quoted."""
        command = super().__new__(cls, f"{python} {shlex.join(words)}")
        command.words = words
        return command


def in_build(site: Site, kind: str, **parts: object) -> CacheCommand:
    """Return the command of the build step that provides an entry of a cache (job/build/cache.py).

    The nodes' Python runs it on a node, else ReFrame's.

    :param kind: name of the program.
    :param parts: parts of the entry, and the link to it; those that are None are left out.
    """
    python = python_of(site) if site.builds_on_node else shlex.quote(sys.executable)
    owners = [f"--cache-owners={','.join(site.cache_owners)}"] if site.cache_owners else []
    return CacheCommand(python, (PROGRAMS, *owners, kind, as_json(parts)))


def as_json(parts: Mapping[str, object]) -> str:
    """Return the parts of an entry as the argument of its program; those that are None are left out."""
    return json.dumps({name: part for name, part in parts.items() if part is not None}, default=str)


def python_of(site: Site) -> str:
    """Return the Python of a partition's nodes, quoted: the site's; else this one for local jobs, or ``python3``."""
    return shlex.quote(site.python or (sys.executable if site.is_here else "python3"))


def in_job(site: Site, program: str, *words: object) -> str:
    """Return the command that runs a program in the job, with the nodes' Python."""
    return f"{python_of(site)} {shlex.join([PROGRAMS, program, *map(str, words)])}"


def exports(environment: Mapping[str, str], side: str = contract.BASELINE) -> list[str]:
    """Return the commands that set the variables of a side.

    Reports show scripts: values that may be secrets are read from a file, see :func:`private_exports`.
    """
    public, private = variables.split(environment)
    read_private = [f". ./{contract.environment_file(side)}"] if private else []
    return [*(f"export {name}={shlex.quote(value)}" for name, value in public.items()), *read_private]


def private_exports(environment: Mapping[str, str]) -> str:
    """Return the content of the file that sets the variables with secret values; empty if there are none."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.split(environment)[1].items())


def unless_found(program: str, report: str, status: int, environment: Mapping[str, str] | None = None) -> str:
    """Return the command that ends its shell if a program is not on the PATH.

    :param program: name of the program, quoted.
    :param report: command that prints the error.
    :param status: exit status of the shell.
    :param environment: variables that are set for the search; those with secret values are left out.
    """
    search = f"command -v {program}"
    public, _ = variables.split(environment or {})
    if public:
        search = f"({'; '.join([*exports(public), search])})"
    return f"{search} >/dev/null || {{ {report}; exit {status}; }}"


def require_python(site: Site) -> tuple[str, ...]:
    """Return the commands that end a job with an error if its node has no Python; none if the job uses this one."""
    if site.is_here and not site.python:
        return ()
    python = python_of(site)
    message = f"error: no {python} on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python"
    return (unless_found(python, f'echo "{message}" >&2', 1),)
