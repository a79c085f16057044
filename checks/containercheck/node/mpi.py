"""Families of MPI: libraries of one ABI, which take each other's place, and what their members call them.

Standard library only, Python 3.6 or newer.

MPICH's ABI (https://www.mpich.org/abi): MPICH, Intel MPI, MVAPICH, ParaStation and Cray's, which has a library for
each compiler (``libmpi_gnu_91.so.12``, on XC ``libmpich_gnu_82.so.3``). Open MPI's: Open MPI from 3 on, HPC-X, and
IBM's Spectrum MPI 10 (``libmpi_ibm.so.3``). The ABI of the standard itself, MPI 5 (chapter 20): ``libmpi_abi.so.0``,
which MPICH has since 5.0 and Open MPI since 6.0, beside the one of its family; MPICH 4.3 called its trial
``libmpi_abi.so.12``.
"""

import re
from pathlib import Path
from typing import Any, List, NamedTuple, Optional


class Family(NamedTuple):
    """Libraries of one ABI.

    ``title`` is what people call it, ``soname`` what programs that were built with its first member ask for, ``names``
    matches what its members call the library, ``program`` is one that comes with it and loads it.
    """

    title: str
    soname: str
    names: Any
    program: str


#: What Cray puts into the names, for the compiler.
_CRAYS = r"_(?:cray|gnu|intel|nvidia|amd|aocc|pgi)(?:_\d+)?"
#: Families, by the name that checks and sites use.
FAMILIES = {
    "mpich": Family(
        "MPICH",
        "libmpi.so.12",
        re.compile(rf"^libmpi((ch)?({_CRAYS})?\.so\.12|ch{_CRAYS}\.so\.3)(\.|$)"),
        "mpichversion",
    ),
    "openmpi": Family("Open MPI", "libmpi.so.40", re.compile(r"^lib(mpi\.so\.40|mpi_ibm\.so\.3)(\.|$)"), "ompi_info"),
}
#: All ABIs. The standard's is none that a launcher belongs to, or that images are built with.
ABIS = {
    **FAMILIES,
    "standard": Family("the standard's ABI", "libmpi_abi.so.0", re.compile(r"^libmpi_abi\.so\.0(\.|$)"), ""),
}
#: SONAMEs of MPI libraries; the bindings for other languages (libmpi_cxx, libmpi_mpifh) are none.
SONAME = re.compile(rf"^libmpi(ch)?(_abi|_ibm|{_CRAYS})?\.so(\.|$)")


def soname_of(path: str) -> str:
    """Return what programs ask for when they want the library with this path: its name to the first number."""
    name = Path(path).name if re.search(r"\.so\.\d", path) else Path(path).resolve().name
    return re.sub(r"(\.so\.\d+)\..*$", r"\1", name)


def family_of(soname: str) -> Optional[str]:
    """Return the family of a library, a key of ABIS; None for one that is in no family, or no MPI's."""
    return next((name for name, family in ABIS.items() if family.names.match(soname)), None)


def title_of(soname: str) -> str:
    """Return a library's name with that of its family."""
    family = family_of(soname)
    return f"{soname} ({ABIS[family].title})" if family else soname


def member_of(name: str) -> str:
    """Return what marks the libraries of one member of a family that lie beside those of others.

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
    """Tell whether a library is of Cray's MPI.

    >>> [is_crays(name) for name in ("libmpi_gnu_91.so.12", "libmpi_ibm.so.3", "libmpi.so.12")]
    [True, False, False]
    """
    return member_of(name) not in ("", "_abi", "_ibm")


def other_names(soname: str) -> List[str]:
    """Return what else a library is called, by programs that were built with another member of its family.

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
    found = [f"libmpi{match[1]}.so.12", f"libmpich{match[1]}.so.12"] if match else []
    match = re.match(r"^libmpi_ibm(_\w+)?\.so\.3$", soname)
    found += [f"libmpi{match[1] or ''}.so.40"] if match else []
    return [name for name in found if name != soname]
