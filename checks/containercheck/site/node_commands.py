"""Return the commands that run the programs of ``containercheck.node``, in the build step and in the job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

from containercheck.node import contract, variables
from containercheck.node.project import PACKAGE
from containercheck.site.sites import Site

#: Directory that Python is given to run them.
PROGRAMS = str(PACKAGE / "node")
#: Shell function that prints the wall-clock seconds of each step.
PHASE = r"""phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}"""


def in_build(site: Site, *words: object) -> str:
    """Return the command that runs a program of the build step: with the nodes' Python on a node, else ReFrame's."""
    python = python_of(site) if site.builds_on_node else shlex.quote(sys.executable)
    owners = [f"--cache-owners={','.join(site.cache_owners)}"] if site.cache_owners else []
    return f"{python} {shlex.join([PROGRAMS, *owners, *map(str, words)])}"


def python_of(site: Site) -> str:
    """Return the Python of a partition's nodes, quoted: the site's, or this one where jobs run here, or python3."""
    return shlex.quote(site.python or (sys.executable if site.is_here else "python3"))


def in_job(site: Site, program: str, *words: object) -> str:
    """Return the command that runs a program in the job, with the nodes' Python."""
    return f"{python_of(site)} {shlex.join([PROGRAMS, program, *map(str, words)])}"


def exports(environment: Mapping[str, str], side: str = contract.BASELINE) -> list[str]:
    """Return the commands that set the variables of a side, as they may be told.

    Scripts are shown in reports: values that may be secrets stand in a file, see :func:`private_exports`.
    """
    public, private = variables.split(environment)
    others = [f". ./{contract.environment_file(side)}"] if private else []
    return [*(f"export {name}={shlex.quote(value)}" for name, value in public.items()), *others]


def private_exports(environment: Mapping[str, str]) -> str:
    """Return the content of the file that sets the others; empty where there are none."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.split(environment)[1].items())


def written(name: str, text: str) -> str:
    """Return the command that writes a text, whatever is in it, into a file of the working directory."""
    end = contract.end_word(text)
    return f"cat >{name} <<'{end}'\n{text}\n{end}"


def unless_found(program: str, said: str, status: int, environment: Mapping[str, str] | None = None) -> str:
    """Return the command that ends its shell where a program is not on the PATH.

    :param program: quoted.
    :param said: the command that says so.
    :param environment: variables that are set while it is looked for, of which those count whose values may be told.
    """
    look = f"command -v {program}"
    public, _ = variables.split(environment or {})
    if public:
        look = f"({'; '.join([*exports(public), look])})"
    return f"{look} >/dev/null || {{ {said}; exit {status}; }}"


def require_python(site: Site) -> tuple[str, ...]:
    """Return the commands that end a job with one line where the nodes have no Python: none where it is this one."""
    if site.is_here and not site.python:
        return ()
    python = python_of(site)
    said = f"error: no {python} on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python"
    return (unless_found(python, f'echo "{said}" >&2', 1),)
