"""Query the parts of an image that matter on a machine, by a few lines of POSIX shell in a container."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.job import inventory, mpi, runtime_start, texts
from containercheck.job.build import image_files
from containercheck.job.contract import CHECKS
from containercheck.job.explain.causes import rule_of_variable
from containercheck.results.formatting import CommandError

#: Programs of the system, which do not identify an application.
_COMMON = ("cat", "python", "python3", "java", "sh", "bash")
#: Statement of the program in a check file, and the definition of a check.
_EXECUTABLE = re.compile(r'^    executable = "(.+)"$', re.MULTILINE)
_CHECK = re.compile(r"^@rfm\.simple_test\nclass (\w+)", re.MULTILINE)
#: Libraries of fabrics and of GPUs, by the beginning of their names.
_KINDS = {"fabric": ("libibverbs", "libfabric", "libucp", "libpsm2"), "GPU": ("libcuda.", "libcudart", "libamdhip64")}
#: Longest wait for a container in seconds. A container that unpacks its image takes a minute.
_PATIENCE = 300.0
#: Most characters of a line of a container's output.
_LONGEST = 4096
#: Script for the container, with the names of programs as its arguments.
_QUESTIONS = r"""
echo "libc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
for file in /lib/ld-musl-*; do [ -e "$file" ] && echo "libc musl"; done
[ -r /etc/os-release ] && . /etc/os-release && echo "system ${PRETTY_NAME:-}"
env | while IFS= read -r line; do echo "variable $line"; done
(IFS=:; for place in ${LD_LIBRARY_PATH:-}; do echo "$place"; done
ls -d /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /lib/*-linux-gnu /usr/lib/*-linux-gnu \
    /usr/lib/*-linux-gnu/openmpi/lib /usr/lib64/*/lib /opt/*/lib /opt/*/*/lib /usr/local/*/lib 2>/dev/null) |
while IFS= read -r place; do
    for file in "$place"/libmpi* "$place"/libibverbs* "$place"/libfabric* "$place"/libucp* "$place"/libpsm2* \
        "$place"/libcuda* "$place"/libamdhip64*; do
        case $file in *.so*) [ -e "$file" ] && echo "library $file" ;; esac
    done
done
for program do command -v "$program" >/dev/null 2>&1 && echo "program $program"; done
ompi_info --version 2>/dev/null | head -n 1 | while IFS= read -r line; do echo "version $line"; done
mpichversion 2>/dev/null | head -n 1 | while IFS= read -r line; do echo "version $line"; done
exit 0
"""


class ImageError(CommandError):
    """An image cannot be queried, so that it is not fit."""

    status = 1


@dataclass(frozen=True)
class ImageFacts:
    """The parts of an image that matter on a machine.

    :ivar path: path of the image.
    :ivar architecture: as ``uname -m`` prints it; None if it is not known.
    :ivar size: size of the file in bytes; 0 for a directory.
    :ivar libc: version of the GNU C library; None for another library.
    :ivar system: name and release of its operating system.
    :ivar variables: variables that it sets and that can slow programs (job/explain/rules.ini).
    :ivar families: families of its MPI libraries, keys of ``mpi.ABIS``, each with a library.
    :ivar other_mpi: MPI libraries of unknown families.
    :ivar mpi_version: version of its MPI, from the output of the MPI's program; empty if it has none.
    :ivar libraries: names of its libraries of fabrics and GPUs, by kind.
    :ivar checks: checks with a program in the image, each with this program.
    :ivar start: seconds to start and to end a container.
    """

    path: str
    architecture: str | None = None
    size: int = 0
    libc: tuple[int, int] | None = None
    system: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    other_mpi: tuple[str, ...] = ()
    mpi_version: str = ""
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    start: float = 0.0


def programs_of_checks(directory: Path = CHECKS) -> dict[str, str]:
    """Return the check of each program that identifies an application, from the application files."""
    programs: dict[str, str] = {}
    for path in sorted(directory.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for program in _EXECUTABLE.findall(text):
            if program not in _COMMON:
                programs.setdefault(program, _CHECK.findall(text)[0])
    return programs


def read(image: str, command: str) -> ImageFacts:
    """Read the parts of an image.

    :param image: path of a file or a directory, or an address that the runtime runs.
    :param command: the runtime's command, of Apptainer's kind.
    :raises CommandError: there is no such image.
    :raises ImageError: no container of it starts.
    :raises OSError: it cannot be read.
    """
    path = Path(image)
    if "://" not in image and not path.exists():
        raise CommandError(f"there is no image {image}")
    architecture = image_files.read_architecture(path) if path.exists() else None
    programs = programs_of_checks()
    runtime, _ = runtime_start.identify(command)
    base = [command, "exec", "--cleanenv", *runtime_start.options(runtime, command, ranks=0), image]
    printed = _run([*base, "sh", "-c", _QUESTIONS, "sh", *programs], image)
    facts = parse(printed, programs)
    size = path.stat().st_size if path.is_file() else 0
    # Now the files of the image are cached.
    began = time.monotonic()
    _run([*base, "true"], image)
    return ImageFacts(image, architecture, size, **facts, start=time.monotonic() - began)


def _run(words: Sequence[str], image: str) -> str:
    try:
        process = subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise ImageError(f"a container of {image} does not end within {_PATIENCE:.0f} s") from None
    if process.returncode != 0:
        # The runtime colors its output, and ends the color on a separate line.
        text = re.sub(r"\x1b\[[0-9;]*m", "", process.stderr.decode(errors="replace"))
        lines = [texts.printable(line.strip()) for line in text.splitlines() if line.strip()] or ["it printed nothing"]
        wrong = [line for line in lines if re.match(r"FATAL|ERROR|error", line)]
        raise ImageError(f"no container of {image} starts: {(wrong or lines)[-1]}")
    return process.stdout.decode(errors="replace")


def parse(printed: str, programs: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of :class:`ImageFacts` that a container printed.

    :param printed: output of the script.
    :param programs: the check of each program in the query.
    """
    printed_by_kind: dict[str, list[str]] = {}
    for line in (texts.printable(line, _LONGEST) for line in printed.splitlines()):
        kind, _, value = line.partition(" ")
        printed_by_kind.setdefault(kind, []).append(value)
    libc = re.search(r"glibc (\d+)\.(\d+)", " ".join(printed_by_kind.get("libc", ())))
    pairs = (line.partition("=") for line in printed_by_kind.get("variable", ()))
    names = [Path(path).name for path in printed_by_kind.get("library", ())]
    own_mpi = list(dict.fromkeys(name for name in names if mpi.SONAME.match(name)))
    families: dict[str, str] = {}
    for name in own_mpi:
        family = mpi.family_of(name)
        if family:
            families.setdefault(family, name)
    programs_there = printed_by_kind.get("program", ())
    return {
        "libc": (int(libc[1]), int(libc[2])) if libc else None,
        "system": next(iter(printed_by_kind.get("system", ())), ""),
        "variables": {name: value for name, _, value in pairs if rule_of_variable(name)},
        "families": families,
        "other_mpi": tuple(name for name in own_mpi if not mpi.family_of(name) and re.search(r"\.so\.\d+$", name)),
        "mpi_version": " ".join(inventory.first_line("\n".join(printed_by_kind.get("version", ()))).split()),
        "libraries": {kind: _beginning(names, beginnings) for kind, beginnings in _KINDS.items()},
        "checks": {programs[name]: name for name in programs_there if name in programs},
    }


def _beginning(names: Iterable[str], beginnings: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        sorted({name for name in names if name.startswith(tuple(beginnings)) and re.search(r"\.so\.\d+$", name)})
    )
