"""Hold everything that depends on a machine's architecture; no other file of the library and no check names one.

Standard library only, Python 3.6 or newer.
"""

import re
from typing import List, NamedTuple, Optional, Tuple


class Architecture(NamedTuple):
    """Describe an architecture: its names, its marks in files, and its instruction sets.

    ``name`` is that of ``uname -m``, and of its generic processor in archspec and Spack; ``debian`` is Debian's name,
    and ``triplet`` the directory of its libraries in Debian. ``sif`` are the digits in an image of Singularity's
    format, ``elf`` is the number in a program. ``processor`` matches the line of ``/proc/cpuinfo`` that names the
    processor. ``kernels`` are GROMACS's instruction sets besides plain C, the oldest first; every machine of today has
    ``portable``.

    ``instructions`` holds the machine code of one instruction per set, by the kernel's name of the set, the oldest
    first. No processor has the first one. ``end`` is the code that ends a program with exit status 0. (Intel's and
    Arm's manuals; Power ISA 3.1.)
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


#: Architectures of images, by name. The digits come from sylabs/sif (arch.go), the numbers from elf.h (e_machine).
KNOWN = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "x86_64",
            "amd64",
            "x86_64-linux-gnu",
            b"02",
            62,
            r"model name\s*: *(.+)",
            ("SSE2", "SSE4.1", "AVX_256", "AVX2_256", "AVX_512"),
            "SSE4.1",
            (
                ("undefined", b"\x0f\x0b"),  # ud2
                ("avx", b"\xc5\xfc\x57\xc0"),  # vxorps ymm0, ymm0, ymm0
                ("avx2", b"\xc5\xfd\xfe\xc0"),  # vpaddd ymm0, ymm0, ymm0
                ("avx512f", b"\x62\xf1\x7d\x48\xfe\xc0"),  # vpaddd zmm0, zmm0, zmm0
                ("amx_tile", b"\xc4\xe2\x78\x49\xc0"),  # tilerelease
            ),
            # mov eax, 60; xor edi, edi; syscall
            b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05",
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
            (
                ("undefined", b"\x00\x00\x00\x00"),  # udf #0
                ("sve", b"\xe0\xe3\x18\x25"),  # ptrue p0.b
                ("sme", b"\x7f\x47\x03\xd5"),  # smstart
            ),
            # mov x0, #0; mov x8, #93; svc #0
            b"\x00\x00\x80\xd2\xa8\x0b\x80\xd2\x01\x00\x00\xd4",
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
            (
                ("undefined", b"\x00\x00\x00\x00"),
                ("arch_3_1", b"\xb6\x01\x63\x7c"),  # brh r3, r3, of POWER10
            ),
            # li r0, 1; li r3, 0; sc
            b"\x01\x00\x00\x38\x00\x00\x60\x38\x02\x00\x00\x44",
        ),
    )
}
#: Names of other architectures that an image may be for.
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
#: Names of Arm's processors by the numbers that they report: the maker's, and the part's (Linux: asm/cputype.h).
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
