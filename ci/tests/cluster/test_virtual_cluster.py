"""The cluster in a box: it comes up, survives what is done to it, and leaves nothing behind."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import CLUSTER, SHARED, STATE, cluster, eventually

MCA_FILE = Path("/etc/openmpi/openmpi-mca-params.conf")
UCX_FILE = Path("/etc/ucx/ucx.conf")
ORDINARY_USER = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="starting a virtual cluster needs root"),
]


def run(*command, check=True):
    """Run a command as a user of the cluster would, and return what it prints."""
    environment = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf")}
    done = subprocess.run(command, env=environment, cwd="/", text=True, capture_output=True, timeout=120)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def answering():
    """Return the nodes that a job over two nodes runs on; srun's own remarks left out."""
    return sorted(re.findall(r"^node\d$", run("srun", "-N2", "hostname"), re.MULTILINE))


def environ_of(process):
    """Return the environment of a process, empty when it has ended."""
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def processes(part=""):
    """Return the processes of one part of the cluster, or of all: name by id."""
    mark = f"VIRTUAL_CLUSTER_PART={part}".encode()
    found = [p for p in Path("/proc").glob("[0-9]*") if mark in environ_of(p)]
    return {int(p.name): (p / "comm").read_text().strip() for p in found}


def network_of(process):
    """Return the network that a process is in; None when it has ended. (lsns gives up where one ends meanwhile.)"""
    try:
        return os.readlink(process / "ns" / "net")
    except OSError:
        return None


def leftovers():
    """Return everything on the machine that a cluster might leave behind."""
    return {
        "networks": set(filter(None, map(network_of, Path("/proc").glob("[0-9]*")))),
        "interfaces": set(re.findall(r"^\d+: (\S+):", run("ip", "-o", "link"), re.MULTILINE)),
        "mounts": sorted(Path("/proc/self/mounts").read_text().splitlines()),
        "hosts": Path("/etc/hosts").read_text(),
        "folders": [folder for folder in (STATE, SHARED, UCX_FILE.parent) if folder.exists()],
        "processes": processes(),
        "daemons": run("pgrep", "slurm|munged", check=False).split(),
    }


def submit(script, *options):
    """Submit a job and return its number, once it runs."""
    job = run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", script).strip()
    assert eventually(lambda: state_of(job) == "RUNNING")
    return job


def state_of(job):
    """Return a job's state in Slurm's words; empty while the controller does not answer."""
    found = re.search(r"JobState=(\S+)", run("scontrol", "show", "job", job, check=False))
    return found[1] if found else ""


@pytest.fixture(scope="module")
def before():
    """Return what is on the machine without the cluster, and leave it so at the end."""
    if processes():
        pytest.skip("a virtual cluster is up and may be in use: end it first with ci/virtual-cluster down")
    cluster("down")
    yield leftovers()
    cluster("down")


@pytest.fixture
def up(before):
    """Have all of a two-node cluster up."""
    cluster("up", "--nodes", "2")


@pytest.fixture
def shared_file():
    """Return a file that all nodes and users can write."""
    file = SHARED / "test-file"
    yield file
    file.unlink(missing_ok=True)


def test_comes_up_from_nothing(before):
    """The last lines of up are all that a person needs to go on."""
    said = cluster("up", "--nodes", "2")
    assert said.endswith(cluster("env"))
    assert cluster("status").count("idle") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "3"), "2 nodes of 1 cores.*virtual-cluster down"),
        (("--like", "smt"), "the cluster is like no other. To change that, first run: ci/virtual-cluster down"),
        (("--like", "chpce", "--small"), "--like chpce needs compilers on its nodes: leave out --small"),
        *((("--like", name), "--like needs one of: chpce cray cte_power gri") for name in ("", "../layout", "cray.sh")),
    ],
)
def test_what_a_cluster_that_is_up_cannot_become_is_one_line(up, words, said):
    printed = cluster("up", *words, check=False)
    (error,) = [line for line in printed.splitlines() if line.startswith("virtual-cluster: error: ")]
    assert re.search(said, error), printed


@pytest.mark.parametrize("user", [(), ORDINARY_USER], ids=["root", "ordinary"])
def test_every_node_is_a_machine_of_its_own(up, user):
    """Name, core, interfaces and /tmp are the node's."""
    see = "cd /tmp; mkdir of-$(hostname); sleep 1; echo $(nproc) $(ls /sys/class/net) of-*; rmdir of-*"
    seen = run(*user, "srun", "--chdir=/", "-N2", "sh", "-c", see).splitlines()
    assert sorted(seen) == [f"1 eth0 fab0 lo of-node{i}" for i in (1, 2)]


@pytest.mark.parametrize(
    ("file", "setting"), [(MCA_FILE, "btl_tcp_if_include = fab0"), (UCX_FILE, "UCX_NET_DEVICES=fab0")]
)
def test_fabric_is_configured_inside_only(up, file, setting):
    """The host's own file stays as it is."""
    if file is MCA_FILE and not file.exists():
        pytest.skip("no Open MPI in /etc/openmpi")
    assert setting in run("srun", "-N1", "cat", str(file))
    assert not file.exists() or setting not in file.read_text()


def test_node_that_dies_fails_its_job(up):
    """Promptly, and up brings the node back."""
    job = submit("srun sleep 300", "-N2")
    cluster("kill-node", "node2")
    assert eventually(lambda: state_of(job) not in ("RUNNING", "COMPLETING"))
    assert state_of(job) in ("NODE_FAIL", "FAILED")
    assert "node2" in cluster("status", check=False)
    cluster("up")
    assert answering() == ["node1", "node2"]


def test_down_leaves_nothing_but_what_jobs_wrote(up, before, shared_file):
    """Also when a job runs."""
    submit("setsid sleep 300 & sleep 300", "-N2")
    shared_file.write_text("a result")
    assert str(SHARED) in cluster("down")
    assert shared_file.read_text() == "a result"
    shared_file.unlink()
    cluster("down")
    assert eventually(lambda: leftovers() == before), leftovers()


@pytest.mark.parametrize("seconds", [0.2, *(pytest.param(when, marks=pytest.mark.long) for when in (0.05, 0.4, 0.9))])
def test_crash_in_the_middle_of_up(before, seconds):
    """Down cleans up after it; or another up goes on."""
    for goes_on in (False, True):
        starting = subprocess.Popen(
            [CLUSTER, "up", "--nodes", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds)
        starting.kill()
        starting.wait()
        if goes_on:
            cluster("up")
            assert cluster("status").count("idle") == 2
        cluster("down")
        assert eventually(lambda: leftovers() == before), leftovers()
