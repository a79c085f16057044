"""IMB: its steps, and the MPI that is put under it."""

from __future__ import annotations

import inspect
import re
import sys
from types import SimpleNamespace

import pytest
from containercheck.job import contract, host_mpi
from imb import IMB


def test_a_reduction_of_all_sizes_is_measured_on_the_full_axes_only():
    for sizes, limited in (("few", True), ("all", False)):
        check = SimpleNamespace(sizes=sizes, trials=10, volume=1, num_nodes=1, num_tasks_per_node=2, num_tasks=2)
        check.program = "IMB-MPI1"
        inspect.unwrap(IMB.choose_ranks_and_trials)(check)
        assert [("-msglog 3:3" in step.command) for step in check.steps] == [False, limited]


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """A machine whose loader finds nothing but what is put here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host_mpi, "libraries_of_host", lambda: sorted(map(str, tmp_path.glob("lib*.so.*"))))
    return tmp_path


def test_a_host_with_another_abi_only_is_a_reason_to_skip(libraries, monkeypatch, capsys):
    (libraries / "libmpi.so.40").touch()
    monkeypatch.setattr(sys, "argv", ["hostmpi", "lend", "mpich"])
    with pytest.raises(SystemExit) as end:
        host_mpi.main()
    assert end.value.code == contract.UNSUPPORTED
    said = capsys.readouterr().err
    assert re.match(r"error: no software: .* needs libmpi.so.12 \(MPICH\), .* has libmpi.so.40\. Install mpich", said)


@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("libmpi.so.40", "another ABI"),
        ("/nowhere/libmpi.so.12", r"no /nowhere/libmpi.so.12 on .*: the site's extras, host_mpich"),
    ],
)
def test_a_library_that_the_site_names_wrongly_is_a_clear_error(libraries, library, said):
    for name in ("libmpich.so.12", "libmpi.so.40"):
        (libraries / name).touch()
    with pytest.raises(host_mpi.HostMpiError, match=said):
        host_mpi.lend("mpich", str(libraries / library))


@pytest.mark.parametrize("name", ["libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", "libmpi_gnu_91.so.12"])
def test_relatives_take_each_others_place(libraries, name):
    (libraries / name).touch()
    (libraries / "libmpi.so.40").touch()
    host_mpi.lend("mpich")
    assert (libraries / "bare-mpi" / "libmpi.so.12").resolve() == libraries / name
