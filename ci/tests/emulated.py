"""What the tests of nodes of other architectures share: the cluster that has them, jobs and sessions there."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import REPOSITORY, STATE, Session, cluster_up, run_session
from containercheck.job import architectures

#: What is known of the architecture of each partition.
PARTITIONS = {"arm": architectures.KNOWN["aarch64"], "power": architectures.KNOWN["ppc64le"]}
#: Where the kernel keeps the programs that start those of other architectures.
FORMATS = Path("/proc/sys/fs/binfmt_misc")
#: Seconds: userlands and images are made the first time, by programs that qemu runs.
PATIENCE = 3600
#: Where programs lie on the machine and on its nodes. A Python of root's own would be the machine's there, too.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: One case of each variant of these checks.
START_UP = "^StartUp%.*image_in=shared%image_release=fitting%circumstances=usual"
PING_PONG = "^PingPong%.*num_nodes={nodes}%image_release=fitting"
#: Checks that other tests run on such nodes.
ELSEWHERE = {"GROMACS", "HPCC", "PingPong", "StartUp"}
#: Checks that belong to the full axes as a whole.
FULL_ONLY = {"DGEMM", "GROMACSKernels", "GROMACSNative", "GROMACSThreads", "PingPongStatic", "QuantumEspressoMPI"}
SPACK = "no software: {environment} comes from Spack, and there is no spack"
BROUGHT = "no software: {check} cannot be downloaded"
TENSORFLOW = {"arm": None, "power": "tensorflow is pinned for x86_64, aarch64"}
#: Why the others do not run there, by partition or in both; None for those that do.
LACKING = {
    **dict.fromkeys(("Alya", "Amber", "AmberDLB", "PACE3D"), BROUGHT),
    **dict.fromkeys(("BTMZ", "BTMZCollocation", "HPCG", "WRF"), SPACK),
    **dict.fromkeys(("Collocation", "QuantumEspressoDLB"), "dlb comes from Spack"),
    **dict.fromkeys(("RAMP", "TensorFlowCNN"), TENSORFLOW),
    "IMB": "imb is pinned for x86_64",
    **dict.fromkeys(("DB12", "HPL", "IOzone", "ImageFiles", "ImageTransfer", "Isolation", "MueLu", "NewerProcessor")),
    **dict.fromkeys(("GROMACSHybrid", "OpenFOAM", "Palabos", "QuantumEspresso", "SemanticSpaces", "WordCount")),
}
#: Where such tests can run at all.
MARKS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root"),
    pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="userlands are of this machine's Debian"),
]


@contextlib.contextmanager
def up(*words: str) -> Iterator[None]:
    """Have a cluster with such nodes; afterwards the kernel starts what it started before."""
    before = formats()
    with cluster_up("--nodes", "1", "--cores-per-node", "2", *words, patience=PATIENCE):
        yield
    assert formats() == before


@contextlib.contextmanager
def up_where_possible(*words: str) -> Iterator[dict[str, str]]:
    """Have a cluster with a node of each architecture that this machine's package mirror has.

    :return: by partition, why it has no node.
    """
    lacking: dict[str, str] = {}
    while True:
        with contextlib.ExitStack() as held:
            nodes = [word for name in PARTITIONS if name not in lacking for word in (f"--{name}", "1")]
            if not nodes:
                pytest.skip("; ".join(lacking.values()))
            try:
                held.enter_context(up(*nodes, *words))
            except AssertionError as error:
                found = re.search(r"no Debian for (\S+): the package mirror has it not, .*", str(error))
                if not found:
                    raise
                lacking[next(name for name, partition in PARTITIONS.items() if partition.debian == found[1])] = found[0]
                continue
            yield lacking
            return


def formats() -> list[str]:
    """Return what the kernel starts by other programs."""
    return sorted(path.name for path in FORMATS.glob("*"))


def on_node(partition: str, script: str, *options: str, user: Sequence[str] = ()) -> str:
    """Run a shell script as a job on a node of a partition, and return what it prints.

    :param user: the command that makes it another user's.
    """
    environment = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf"), "PATH": PATH}
    command = [*user, "srun", "--chdir=/", f"--partition={partition}", *options, "bash", "-c", script]
    done = subprocess.run(command, env=environment, cwd="/", text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def reframe(place: Path, system: str, *words: str, site: Path | None = None) -> Session:
    """Run a session on one partition.

    :param place: a directory that the nodes see.
    :param site: its file; the virtual cluster's where none is given.
    """
    settings = str(site or REPOSITORY / "config" / "virtual_cluster.py")
    own = {"SLURM_CONF": str(STATE / "slurm.conf"), "RFM_CONFIG_FILES": settings, "PATH": PATH}
    checks = REPOSITORY / "checks"
    return run_session(place, f"--system={system}", *words, checks=checks, patience=PATIENCE, **own)


def require_run(result: Session, partition: str, variant: str, check: str | None = None) -> dict:
    """Require that a case passed on nodes of a partition, with their MPI and an image of theirs; return the case."""
    case = result.case(variant, **({"name": check} if check else {}))
    assert case["result"] == "pass", result.output
    libraries, known = case["provenance"]["mpi"], PARTITIONS.get(partition)
    # Start-up has an MPI in the integrated variant only.
    assert libraries.get("baseline") or case["name"].startswith("StartUp"), libraries
    if known and libraries.get("baseline"):
        assert any(f"/{known.triplet}/libmp" in library for library in libraries["baseline"]), libraries
    if variant != "bare" and (libraries.get("subject") or variant == "integrated"):
        # Proven by what the ranks had mapped.
        hosts = any(library.startswith("/host/") for library in libraries["subject"])
        assert hosts is (variant == "integrated"), libraries
    if variant != "bare" and known:
        assert {row["verdict"] for row in case["results"]} == {"emulated"}
    return case


def with_image(place: Path, image: Path) -> Path:
    """Write a site file of the virtual cluster whose base image for MPI is this one; return its path."""
    text = (REPOSITORY / "config" / "virtual_cluster.py").read_text()
    site = place / "site.py"
    site.write_text(text.replace('"emulated": True,', f'"emulated": True, "images": {{"mpi": "{image}"}},'))
    assert site.read_text() != text
    return site
