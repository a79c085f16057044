"""Hold everything that depends on a machine's architecture; no other file of the library and no check names one.

The values are in ``architectures.ini``.

Standard library only, Python 3.6 or newer.
"""

import re
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from containercheck.job import texts


class Architecture(NamedTuple):
    """Describe an architecture: its names, its marks in files, and its instruction sets.

    ``name`` is that of ``uname -m``, and of its generic processor in archspec and Spack; ``debian`` is Debian's name,
    and ``triplet`` the directory of its libraries in Debian. ``sif`` are the digits in an image of Singularity's
    format, ``elf`` is the number in a program. ``processor`` matches the line of ``/proc/cpuinfo`` that names the
    processor. ``kernels`` are GROMACS's instruction sets besides plain C, the oldest first; every machine of today has
    ``portable``.

    ``instructions`` holds the machine code of one instruction per set, by the kernel's name of the set, the oldest
    first. No processor has the first one. ``end`` is the code that ends a program with exit status 0.
    ``counting_call`` is the number of the system call perf_event_open, and ``reading_call`` that of read.
    """

    name: str
    debian: str
    triplet: str
    sif: bytes
    elf: int
    processor: str
    kernels: Tuple[str, ...]
    portable: str
    instructions: Tuple[Tuple[str, bytes], ...]
    end: bytes
    counting_call: int
    reading_call: int


_TABLE = texts.table(Path(__file__).with_name("architectures.ini"))


def _architecture(name: str) -> Architecture:
    """Return the row of an architecture."""
    row = _TABLE[name]
    codes = (line.partition(" ") for line in row["instructions"].strip().splitlines())
    return Architecture(
        name,
        row["debian"],
        row["triplet"],
        row["sif"].encode(),
        int(row["elf"]),
        row["processor"],
        tuple(row["kernels"].split()),
        row["portable"],
        tuple((instruction, bytes.fromhex(code)) for instruction, _, code in codes),
        bytes.fromhex(row["end"]),
        int(row["counting_call"]),
        int(row["reading_call"]),
    )


#: Architectures of images, by name.
KNOWN = {name: _architecture(name) for name in _TABLE.sections() if " " not in name}
#: GROMACS's instruction sets by a feature that archspec lists, the widest first.
KERNELS_BY_FEATURE = dict(_TABLE["kernels by feature"])
#: Names of Arm's processors by the numbers of maker and part.
_ARM_PARTS = {tuple(numbers.split()): name for numbers, name in _TABLE["parts of Arm"].items()}
#: Names of other architectures that an image may be for.
_OTHERS_OF_SIF = {b"01": "i386", b"03": "arm", b"12": "riscv64"}
_OTHERS_OF_ELF = {3: "i386", 40: "arm", 243: "riscv64"}
#: GROMACS's non-bonded kernels without any instruction set, which every build has.
PLAIN_C = "C"
#: Names of the dynamic loader, a part of libc, on all of these.
LOADER = r"ld-linux.*|ld64"


def from_sif(digits: bytes) -> Optional[str]:
    """Return the name of the architecture of an image in Singularity's format; None if unknown."""
    return {known.sif: name for name, known in KNOWN.items()}.get(digits) or _OTHERS_OF_SIF.get(digits)


def from_elf(number: int) -> Optional[str]:
    """Return the name of the architecture with this number in a little-endian program; None for an unknown one."""
    return {known.elf: name for name, known in KNOWN.items()}.get(number) or _OTHERS_OF_ELF.get(number)


def engine_name(name: str) -> str:
    """Return the name of an architecture in the configuration of an image of an engine, which is Go's name."""
    return {"x86_64": "amd64", "aarch64": "arm64", "i386": "386"}.get(name, name)


def is_known(name: Optional[str]) -> bool:
    """Return whether this is the name of an architecture that can be recognised in images."""
    return name in KNOWN or name in _OTHERS_OF_SIF.values()


def processor(cpuinfo: str) -> Optional[str]:
    """Return the name of the processor, from the text of ``/proc/cpuinfo``; None if it has no name.

    For an Arm processor without a known name, return its numbers.
    """
    for architecture in KNOWN.values():
        match = re.search("^" + architecture.processor + "$", cpuinfo, re.MULTILINE)
        if match:
            parts = match.groups()
            return _ARM_PARTS.get((parts[0], parts[-1])) or " ".join(parts).strip()
    return None


def counting_call(name: str) -> int:
    """Return the number of perf_event_open on an architecture; -1, which no kernel has, for an unknown one."""
    return KNOWN[name].counting_call if name in KNOWN else -1


def reading_call(name: str) -> int:
    """Return the number of the system call that reads from a file (syscalls(2)); -1 for an unknown architecture."""
    return KNOWN[name].reading_call if name in KNOWN else -1


def portable_kernels(name: Optional[str]) -> str:
    """Return GROMACS's instruction set that runs on every machine of an architecture."""
    return KNOWN[name].portable if name in KNOWN else "None"


def kernels(names: List[Optional[str]]) -> List[str]:
    """Return GROMACS's instruction sets, plain C first, of these architectures; of all if one is unknown."""
    is_complete = all(name in KNOWN for name in names)
    architectures = [KNOWN[name] for name in names if name] if is_complete else list(KNOWN.values())
    return [PLAIN_C, *dict.fromkeys(kernel for architecture in architectures for kernel in architecture.kernels)]


def has_kernels(name: Optional[str], wanted: str) -> bool:
    """Return whether a machine of an architecture may have an instruction set of GROMACS."""
    return wanted in kernels([name])
