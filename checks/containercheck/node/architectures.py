"""What depends on the architecture of a machine: no other file of the library and no check names one.

Standard library only, Python 3.6 or newer.
"""

import re
from typing import List, NamedTuple, Optional, Tuple


class Architecture(NamedTuple):
    """What is special of one.

    ``name`` is what ``uname -m`` says, and what archspec and Spack call the processor that all of them are; ``debian``
    is Debian's name, and ``triplet`` the directory of its libraries there. ``sif`` are the digits in an image of
    Singularity's format, ``elf`` is the number in a program. ``processor`` matches the line of ``/proc/cpuinfo`` that
    tells which one it is. ``kernels`` are GROMACS's instruction sets, the oldest first, besides plain C, and
    ``portable`` is the one that every machine of today has.
    """

    name: str
    debian: str
    triplet: str
    sif: bytes
    elf: int
    processor: str
    kernels: Tuple[str, ...]
    portable: str


#: Those that images are made for, by name. The digits are of sylabs/sif (arch.go), the numbers of elf.h (e_machine).
KNOWN = {
    one.name: one
    for one in (
        Architecture(
            "x86_64",
            "amd64",
            "x86_64-linux-gnu",
            b"02",
            62,
            r"model name\s*: *(.+)",
            ("SSE2", "SSE4.1", "AVX_256", "AVX2_256", "AVX_512"),
            "SSE4.1",
        ),
        Architecture(
            "aarch64",
            "arm64",
            "aarch64-linux-gnu",
            b"04",
            183,
            r"CPU implementer\s*: *(\S+)(?:\n.*)*?\nCPU part\s*: *(\S+)",
            ("ARM_NEON_ASIMD", "ARM_SVE"),
            "ARM_NEON_ASIMD",
        ),
        Architecture(
            "ppc64le",
            "ppc64el",
            "powerpc64le-linux-gnu",
            b"06",
            21,
            r"cpu\s*: *(.+)",
            ("IBM_VSX",),
            "IBM_VSX",
        ),
    )
}
#: What else an image may be for.
_OTHERS_OF_SIF = {b"01": "i386", b"03": "arm", b"12": "riscv64"}
_OTHERS_OF_ELF = {3: "i386", 40: "arm", 243: "riscv64"}
#: GROMACS's instruction sets by a feature that archspec lists, the widest first (GROMACS's installation guide, "SIMD
#: support"). SVE is as wide as on the machine that compiles it.
KERNELS_BY_FEATURE = {
    "avx512f": "AVX_512",
    "avx2": "AVX2_256",
    "avx": "AVX_256",
    "sse4_1": "SSE4.1",
    "sse2": "SSE2",
    "sve": "ARM_SVE",
    "asimd": "ARM_NEON_ASIMD",
    "vsx": "IBM_VSX",
}
#: GROMACS's non-bonded kernels without any instruction set, which every build has.
PLAIN_C = "C"
#: Arm's processors tell numbers: the maker's, and the part's (Linux: asm/cputype.h).
_ARM_PARTS = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x42", "0x516"): "ThunderX2",
    ("0x43", "0x0a1"): "ThunderX",
    ("0x43", "0x0af"): "ThunderX2",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "Kunpeng 920",
}
#: The dynamic loader, a part of libc, by the names that it has on all of these.
LOADER = r"ld-linux.*|ld64"


def from_sif(digits: bytes) -> Optional[str]:
    """Return the name of the architecture that an image of Singularity's format is for; None for an unknown one."""
    return {one.sif: name for name, one in KNOWN.items()}.get(digits) or _OTHERS_OF_SIF.get(digits)


def from_elf(number: int) -> Optional[str]:
    """Return the name of the architecture that a program is for, lower byte first; None for an unknown one."""
    return {one.elf: name for name, one in KNOWN.items()}.get(number) or _OTHERS_OF_ELF.get(number)


def is_known(name: Optional[str]) -> bool:
    """Tell whether images tell that they are for this architecture."""
    return name in KNOWN or name in _OTHERS_OF_SIF.values()


def processor(cpuinfo: str) -> Optional[str]:
    """Return the name of the processor, from ``/proc/cpuinfo``; None where that does not tell.

    Of an Arm processor that is not known here, its numbers.
    """
    for one in KNOWN.values():
        found = re.search("^" + one.processor + "$", cpuinfo, re.MULTILINE)
        if found:
            parts = found.groups()
            return _ARM_PARTS.get((parts[0], parts[-1])) or " ".join(parts).strip()
    return None


def portable_kernels(name: Optional[str]) -> str:
    """Return the instruction set for which GROMACS is built where it has to run on every machine of an architecture."""
    return KNOWN[name].portable if name in KNOWN else "None"


def kernels(names: List[Optional[str]]) -> List[str]:
    """Return GROMACS's instruction sets, plain C first, of these architectures; of all where one is not known."""
    found = [KNOWN[name] for name in names if name in KNOWN]
    wanted = found if len(found) == len(names) else KNOWN.values()
    return [PLAIN_C, *dict.fromkeys(kernel for one in wanted for kernel in one.kernels)]


def has_kernels(name: Optional[str], wanted: str) -> bool:
    """Tell whether a machine of an architecture may have an instruction set of GROMACS."""
    return wanted in kernels([name])
