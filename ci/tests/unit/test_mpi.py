"""Families of MPI: what centres call their libraries."""

from __future__ import annotations

import doctest

import pytest
from containercheck.job import mpi


def test_the_examples_hold():
    assert doctest.testmod(mpi).failed == 0


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libmpi.so.40", "openmpi"),
        ("libmpi.so.40.30.4", "openmpi"),
        ("libmpi_ibm.so.3", "openmpi"),
        ("libmpi.so.12", "mpich"),
        ("libmpich.so.12", "mpich"),
        ("libmpi_cray.so.12", "mpich"),
        ("libmpi_gnu_91.so.12.0.0", "mpich"),
        ("libmpi_gnu.so.12", "mpich"),
        ("libmpich_gnu_82.so.3", "mpich"),
        ("libmpi_nvidia.so.12", "mpich"),
        ("libmpi_aocc.so.12", "mpich"),
        ("libmpi_abi.so.0", "standard"),
        ("libmpi_abi.so.0.0.0", "standard"),
    ],
)
def test_a_library_has_a_family(name, family):
    assert mpi.family_of(name) == family
    assert mpi.SONAME.match(name)


@pytest.mark.parametrize("name", ["libmpi.so", "libmpi.so.20", "libmpich.so.3", "libmpi_abi.so.12"])
def test_some_are_in_none(name):
    assert mpi.family_of(name) is None
    assert mpi.SONAME.match(name)


@pytest.mark.parametrize(
    "name",
    [
        "libmpi_cxx.so.40",
        "libmpi_mpifh.so.40",
        "libmpi_usempif08.so.40",
        "libmpifort_gnu_91.so.12",
        "libmpicxx.so.12",
        "libmpi_ibm_mpifh.so.3",
        "libmpi_java.so.40",
        "libmpigraph.so.1",
        "libpmpi_abi.so.0",
    ],
)
def test_bindings_for_other_languages_are_no_mpi_library(name):
    assert not mpi.SONAME.match(name)


def test_a_library_is_asked_for_by_its_name_to_the_first_number(tmp_path):
    (tmp_path / "libmpi.so").symlink_to("libmpi.so.40.30.4")
    (tmp_path / "libmpi.so.40.30.4").touch()
    assert mpi.soname_of(str(tmp_path / "libmpi.so")) == "libmpi.so.40"
    assert mpi.soname_of("/opt/cray/lib/libmpi_gnu_91.so.12.0.0") == "libmpi_gnu_91.so.12"
    assert mpi.soname_of("/opt/cray/lib/libmpi_gnu_91.so.12") == "libmpi_gnu_91.so.12"
