"""Families of MPI: what centres call their libraries."""

from __future__ import annotations

import doctest

from containercheck.job import mpi


def test_the_examples_hold():
    assert doctest.testmod(mpi).failed == 0


#: Names of MPI libraries, by their family; those of bindings for other languages are none.
NAMES = {
    "openmpi": ["libmpi.so.40", "libmpi.so.40.30.4", "libmpi_ibm.so.3"],
    "mpich": [
        *("libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", "libmpi_gnu_91.so.12.0.0", "libmpi_gnu.so.12"),
        *("libmpich_gnu_82.so.3", "libmpi_nvidia.so.12", "libmpi_aocc.so.12"),
    ],
    "standard": ["libmpi_abi.so.0", "libmpi_abi.so.0.0.0"],
    None: ["libmpi.so", "libmpi.so.20", "libmpich.so.3", "libmpi_abi.so.12"],
}
BINDINGS = ("libmpi_cxx.so.40", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40", "libmpifort_gnu_91.so.12")
BINDINGS += ("libmpicxx.so.12", "libmpi_ibm_mpifh.so.3", "libmpi_java.so.40", "libmpigraph.so.1", "libpmpi_abi.so.0")


def test_a_library_has_a_family():
    for family, names in NAMES.items():
        assert [name for name in names if mpi.family_of(name) != family or not mpi.SONAME.match(name)] == []
    assert [name for name in BINDINGS if mpi.SONAME.match(name)] == []


def test_a_library_is_asked_for_by_its_name_to_the_first_number(tmp_path):
    (tmp_path / "libmpi.so").symlink_to("libmpi.so.40.30.4")
    (tmp_path / "libmpi.so.40.30.4").touch()
    assert mpi.soname_of(str(tmp_path / "libmpi.so")) == "libmpi.so.40"
    assert mpi.soname_of("/opt/cray/lib/libmpi_gnu_91.so.12.0.0") == "libmpi_gnu_91.so.12"
    assert mpi.soname_of("/opt/cray/lib/libmpi_gnu_91.so.12") == "libmpi_gnu_91.so.12"
