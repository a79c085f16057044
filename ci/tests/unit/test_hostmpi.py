"""The integrated variant: the host's MPI in the container, and what its loader may say against it."""

from __future__ import annotations

import doctest
import json
import os
import shutil

import pytest
from conftest import write_program
from containercheck.job import contract, host_mpi, mpi
from saved import OUTPUTS

KNOWN = {"soname": "libmpi.so.40", "path": "/usr/lib/libmpi.so.40.30.4"}
KNOWN["spares"] = {"libatomic.so.1": "/host/usr/lib/libatomic.so.1.2.0"}

LOADED = (OUTPUTS / "loader/program").read_text()


#: As the loader says it of a shell with the host's MPI, where the image's program is a script.
OF_SCRIPT = (OUTPUTS / "loader/script").read_text()
NEWER = (
    "hpcc: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /rfm_workdir/subject.host-mpi/libmpi.so.40)\n"
)
NOT_PRELOADED = "ERROR: ld.so: object 'libmpi-of-host.so' from LD_PRELOAD cannot be preloaded (x): ignored.\n"
STANDARD = {**KNOWN, "soname": "libmpi_abi.so.0", "path": "/usr/lib/libmpi_abi.so.0.0.0"}
OF_STANDARD = LOADED.replace("libmpi.so.40", "libmpi_abi.so.0")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Work in a stage directory, without the plugins of this machine's MPI: the loader takes a second for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host_mpi, "_PLUGINS", ())
    return tmp_path


@pytest.mark.parametrize(
    ("preflight", "said"),
    [
        (NEWER + LOADED, "the host's libc is newer than the image's"),
        (LOADED.replace("/lib/x86_64-linux-gnu/libblas.so.3 (0x00007f194abfb000)", "not found"), "libblas.so.3"),
        (LOADED + "\tlibgomp.so.1 => not found\n", "libgomp.so.1 is not found"),
        (
            LOADED.replace("libmpi.so.40", "libmpi.so.12"),
            "another ABI: the image's program needs libmpi.so.12 (MPICH), the host's MPI is libmpi.so.40 (Open MPI). ",
        ),
        (LOADED.replace("/rfm_workdir/subject.host-mpi/", "/opt/mpi/lib/"), "an RPATH outranks LD_LIBRARY_PATH"),
        # The standard's ABI takes no other MPI, and no other takes it.
        (OF_STANDARD, "needs libmpi_abi.so.0 (the standard's ABI), the host's MPI is "),
        ("sh: 1: exec: hpcc: not found\n", "loads no MPI library"),
        ("", "loads no MPI library"),
        (NEWER + OF_SCRIPT, "the host's libc is newer than the image's"),
        (OF_SCRIPT + "\tlibnl-3.so.200 => not found\n", "libnl-3.so.200 is not found"),
        (f"script: /usr/local/bin/hpcc\n{NOT_PRELOADED}", "cannot be preloaded"),
    ],
)
def test_what_the_loader_says_becomes_a_clear_error(preflight, said):
    with pytest.raises(host_mpi.HostMpiError, match=".") as error:
        host_mpi.verify(preflight, KNOWN, "subject")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_program_that_loads_the_hosts_mpi_is_accepted_and_of_a_script_that_the_image_can_load_it():
    assert host_mpi.verify(LOADED, KNOWN, "subject") == host_mpi.verify(OF_STANDARD, STANDARD, "subject") == ""
    said = "/usr/local/bin/hpcc in the image is a script: which MPI its program loads is seen while it runs"
    assert host_mpi.verify(OF_SCRIPT, KNOWN, "subject") == said


def test_each_side_has_a_plan_and_links_of_its_own_and_libraries_that_its_image_lacks_are_the_hosts(stage):
    shutil.copy("/bin/true", stage / "libmpich.so.12")
    for side in ("old", "new"):
        host_mpi.plan("true", "-B{source}:{target}", side, str(stage / "libmpich.so.12"))
        known = {**json.loads((stage / f"{side}.host-mpi.json").read_text()), "spares": KNOWN["spares"]}
        loaded = f"\tlibmpich.so.12 => /rfm_workdir/{side}.host-mpi/libmpich.so.12 (0x0)\n"
        host_mpi.verify(loaded + "\tlibatomic.so.1 => not found\n" * 2, known, side)
    links = [os.readlink(f"{side}.host-mpi/libatomic.so.1") for side in ("old", "new")]
    assert links == ["/host/usr/lib/libatomic.so.1.2.0"] * 2


def test_what_belongs_to_the_standards_abi_is_brought_in_with_it(stage):
    for name in ("libmpi_abi.so.0", "libpmpi_abi.so.0", "libmpi.so.12"):
        shutil.copy("/bin/true", stage / name)
    host_mpi.plan("true", "-B{source}:{target}", "subject", str(stage / "libmpi_abi.so.0"))
    brought = set(os.listdir("subject.host-mpi"))
    assert brought >= {"libmpi_abi.so.0", "libpmpi_abi.so.0"}
    assert "libmpi.so.12" not in brought


def test_the_hosts_own_library_in_a_tree_that_is_bound_in_is_accepted(tmp_path):
    library = tmp_path / "lib" / "libmpi.so.40"
    library.parent.mkdir()
    library.touch()
    loaded = LOADED.replace("/rfm_workdir/subject.host-mpi/libmpi.so.40", "/apps/lib/libmpi.so.40")
    known = {**KNOWN, "path": str(library)}
    host_mpi.verify(loaded, known, "subject", ["/nowhere:/opt", f"{tmp_path}:/apps"])
    for trees in ([], [f"{tmp_path}:/app"], ["/nowhere:/apps"]):
        with pytest.raises(host_mpi.HostMpiError, match="insists on its own /apps/lib/libmpi.so.40"):
            host_mpi.verify(loaded, known, "subject", trees)


@pytest.mark.skipif(shutil.which("ompi_info") is None, reason="no Open MPI on this machine")
def test_the_plan_binds_the_closure_without_libc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = host_mpi.plan("ompi_info", "-B{source}:{target}", "subject", None, "openmpi")
    names = set(os.listdir("subject.host-mpi"))
    assert plan["soname"] in names
    assert any(name.startswith("libopen-pal.so") for name in names)
    assert not {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"} & names
    assert os.readlink("subject.host-mpi/libmpi-of-host.so") == f"/host{os.path.realpath('libmpi-of-host.so')}"
    for link in (tmp_path / "subject.host-mpi").iterdir():
        target = os.readlink(link)
        assert target.startswith("/host/")
        assert os.path.exists(target.removeprefix("/host"))
        assert any(target.startswith(f"{inside}/") for inside in plan["binds"].values())
    for target in plan["spares"].values():
        assert os.path.exists(target.removeprefix("/host"))
        assert any(target.startswith(f"{inside}/") for inside in plan["binds"].values())
    assert "libstdc++.so.6" in plan["spares"]
    assert json.loads((tmp_path / "subject.launch.json").read_text())["mpi-options"][0].startswith("-B/")


def test_a_crays_library_takes_the_place_of_mpich(stage):
    """It lies beside those of other compilers, and programs in images ask for it by another name."""
    libraries = stage / "cray" / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libmpi_gnu_91.so.12", "libmpifort_gnu_91.so.12", "libmpi_nvidia.so.12"):
        shutil.copy("/bin/true", libraries / name)
    plan = host_mpi.plan("true", "-B{source}:{target}", "subject", str(libraries / "libmpi_gnu_91.so.12"))
    links = {link.name: os.readlink(link) for link in (stage / "subject.host-mpi").iterdir()}
    mine = f"/host{libraries}/libmpi_gnu_91.so.12"
    assert (links["libmpi_gnu_91.so.12"], links["libmpi.so.12"], links["libmpich.so.12"]) == (mine, mine, mine)
    assert links["libmpifort.so.12"] == f"/host{libraries}/libmpifort_gnu_91.so.12"
    assert "libmpi_nvidia.so.12" not in links
    assert links[contract.MPI_PRELOAD] == mine
    loaded = LOADED.replace(
        "libmpi.so.40 => /rfm_workdir/subject.host-mpi/libmpi.so.40",
        "libmpich.so.12 => /rfm_workdir/subject.host-mpi/libmpich.so.12",
    )
    host_mpi.verify(loaded, plan, "subject")
    with pytest.raises(host_mpi.HostMpiError, match=r"another ABI: .* needs libmpi.so.40 \(Open MPI\), the host's"):
        host_mpi.verify(LOADED, plan, "subject")


def test_what_crays_mpi_opens_by_name_is_bound_and_for_no_other(stage, monkeypatch):
    places = [stage / "opt" / "cray", stage / "spool"]
    places[0].mkdir(parents=True)
    monkeypatch.setattr(host_mpi, "_CRAY", tuple(map(str, places)))
    for name, expected in (("libmpi_cray.so.12", {str(places[0])}), ("libmpich.so.12", set())):
        shutil.copy("/bin/true", stage / name)
        plan = host_mpi.plan("true", "-B{source}:{target}", "subject", str(stage / name))
        assert {bind for bind in plan["binds"] if bind in map(str, places)} == expected


@pytest.mark.parametrize("program", ["no-such", "true"])
def test_where_no_program_tells_the_loaders_library_of_the_family_is_taken(stage, monkeypatch, program):
    """None is there, or it loads no MPI: as ompi_info does since Open MPI 6."""
    library = stage / "libmpich.so.12"
    shutil.copy("/bin/true", library)
    monkeypatch.setattr(host_mpi, "libraries_of_host", lambda: ["/usr/lib/libmpi.so.40", str(library)])
    plan = host_mpi.plan(program, "-B{source}:{target}", "subject", None, "mpich")
    assert (plan["soname"], plan["path"]) == ("libmpich.so.12", str(library))
    monkeypatch.setattr(host_mpi, "libraries_of_host", lambda: ["/usr/lib/libmpi.so.40"])
    with pytest.raises(host_mpi.AbsentError, match=r"needs libmpi.so.12 .* name its library: .* host_mpi$"):
        host_mpi.plan(program, "-B{source}:{target}", "subject", None, "mpich")


@pytest.mark.parametrize(
    ("program", "said"),
    [("true", "no MPI library of .*/true on .* host_mpi$"), ("./hpcc", "no MPI library of ./hpcc on .* host_mpi$")],
)
def test_a_program_that_does_not_tell_its_mpi_is_a_clear_error(stage, program, said):
    write_program(stage / "hpcc", "exec hpcc.real")
    with pytest.raises(host_mpi.HostMpiError, match=said):
        host_mpi.plan(program, "-B{source}:{target}", "subject", None)


# Families of MPI: what centres call their libraries


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
