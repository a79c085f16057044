"""Describe families of MPI libraries: members of one ABI, which can replace each other, and their file names.

Standard library only, Python 3.6 or newer.

- MPICH's ABI (https://www.mpich.org/abi): MPICH, Intel MPI, MVAPICH, ParaStation and Cray's, which has a library for
  each compiler (``libmpi_gnu_91.so.12``, on XC ``libmpich_gnu_82.so.3``).
- Open MPI's ABI: Open MPI from 3 on, HPC-X, and IBM's Spectrum MPI 10 (``libmpi_ibm.so.3``).
- The ABI of the standard itself, MPI 5 (chapter 20): ``libmpi_abi.so.0``. MPICH has it since 5.0 and Open MPI since
  6.0, in addition to the one of its family. MPICH 4.3 called its trial ``libmpi_abi.so.12``.
"""

import re
from pathlib import Path
from typing import Any, List, NamedTuple, Optional


class Family(NamedTuple):
    """Describe a family: MPI libraries of one ABI.

    ``title`` is its readable name, ``soname`` the library that programs built with its first member ask for. ``names``
    matches the library's file names in all members, and ``program`` is a program of the family that loads it.
    """

    title: str
    soname: str
    names: Any
    program: str


#: Part of the names of Cray's libraries that stands for the compiler.
_CRAYS = r"_(?:cray|gnu|intel|nvidia|amd|aocc|pgi)(?:_\d+)?"
#: Families, by the names that checks and sites use.
FAMILIES = {
    "mpich": Family(
        "MPICH",
        "libmpi.so.12",
        re.compile(rf"^libmpi((ch)?({_CRAYS})?\.so\.12|ch{_CRAYS}\.so\.3)(\.|$)"),
        "mpichversion",
    ),
    "openmpi": Family("Open MPI", "libmpi.so.40", re.compile(r"^lib(mpi\.so\.40|mpi_ibm\.so\.3)(\.|$)"), "ompi_info"),
}
#: All ABIs: those of the families, and the standard's, to which no launcher and no image belongs.
ABIS = {
    **FAMILIES,
    "standard": Family("the standard's ABI", "libmpi_abi.so.0", re.compile(r"^libmpi_abi\.so\.0(\.|$)"), ""),
}
#: SONAMEs of MPI libraries, without those of the bindings for other languages (libmpi_cxx, libmpi_mpifh).
SONAME = re.compile(rf"^libmpi(ch)?(_abi|_ibm|{_CRAYS})?\.so(\.|$)")


def soname_of(path: str) -> str:
    """Return the SONAME by which programs ask for the library with this path: its name to the first number."""
    name = Path(path).name if re.search(r"\.so\.\d", path) else Path(path).resolve().name
    return re.sub(r"(\.so\.\d+)\..*$", r"\1", name)


def family_of(soname: str) -> Optional[str]:
    """Return the family of a library, a key of ABIS; None if it has no family, or is not an MPI library."""
    return next((name for name, family in ABIS.items() if family.names.match(soname)), None)


def title_of(soname: str) -> str:
    """Return a library's name with that of its family."""
    family = family_of(soname)
    return f"{soname} ({ABIS[family].title})" if family else soname


def member_of(name: str) -> str:
    """Return the part of a library's name that identifies one member of a family.

    >>> [member_of(name) for name in ("libmpi_gnu_91.so.12", "libmpifort_gnu_91.so.12", "libmpi_ibm_mpifh.so.3")]
    ['_gnu_91', '_gnu_91', '_ibm']
    >>> [member_of(name) for name in ("libmpi.so.40", "libmpi_mpifh.so.40", "libmpich.so.12")]
    ['', '', '']
    >>> [member_of(name) for name in ("libmpi_abi.so.0", "libpmpi_abi.so.0")]
    ['_abi', '_abi']
    """
    match = re.match(rf"^libp?mpi(?:ch)?(?:fort|cxx)?(_abi|_ibm|{_CRAYS})", name)
    return match[1] if match else ""


def is_crays(name: str) -> bool:
    """Return whether a library belongs to Cray's MPI.

    >>> [is_crays(name) for name in ("libmpi_gnu_91.so.12", "libmpi_ibm.so.3", "libmpi.so.12")]
    [True, False, False]
    """
    return member_of(name) not in ("", "_abi", "_ibm")


def other_names(soname: str) -> List[str]:
    """Return the other names of a library, which programs built with another member of its family ask for.

    >>> other_names("libmpi_gnu_91.so.12")
    ['libmpi.so.12', 'libmpich.so.12']
    >>> other_names("libmpifort_gnu_91.so.12")
    ['libmpifort.so.12', 'libmpichfort.so.12']
    >>> other_names("libmpich_gnu_82.so.3")
    ['libmpi.so.12', 'libmpich.so.12']
    >>> other_names("libmpi_ibm_mpifh.so.3")
    ['libmpi_mpifh.so.40']
    >>> other_names("libmpi.so.40")
    []
    """
    match = re.match(rf"^libmpi(?:ch)?(fort|cxx|)(?:(?:{_CRAYS})?\.so\.12|{_CRAYS}\.so\.3)$", soname)
    names = [f"libmpi{match[1]}.so.12", f"libmpich{match[1]}.so.12"] if match else []
    match = re.match(r"^libmpi_ibm(_\w+)?\.so\.3$", soname)
    names += [f"libmpi{match[1] or ''}.so.40"] if match else []
    return [name for name in names if name != soname]
