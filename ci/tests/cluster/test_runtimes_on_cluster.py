"""All container runtimes over two nodes of the virtual cluster: real containers, MPI between them, nothing left."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import (
    CHECKS,
    CLUSTER,
    REPOSITORY,
    SLURM,
    cluster,
    cluster_up,
    eventually,
    reframe_command,
    shared_directory,
    write_program,
)
from docker_engines import podman_settings
from engine_srun import write_srun

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")]

FEW = ("-S", "rounds=1", "-S", "strict_check=no", "-S", "quiet=0")
#: Candidates by name: Apptainer in all its ways, and runtimes of other kinds.
RUNTIMES = {"file": "apptainer", "unpacked": "apptainer+unpacked", "podman": "podman", "charliecloud": "ch-run"}
NETWORKS = """[network]
network_config_dir = "/tmp/runtimes-networks"
"""
#: A site file whose nodes have another runtime.
SITE = """
import runpy
site_configuration = runpy.run_path({path!r})["site_configuration"]
for system in site_configuration["systems"]:
    for partition in system["partitions"]:
        partition["container_platforms"] = [{{"type": {engine!r}}}]
"""
CONFIGURATION = SLURM["RFM_CONFIG_FILES"]
#: The way in which the ranks of an overlay network started.
IN_OWN_NETWORK = "by the image's own mpirun, in one container on each node, with a network of its own"


@pytest.fixture(scope="module", autouse=True)
def up():
    missing = [tool for tool in ("apptainer", "podman", "runc", "ch-run", "skopeo", "umoci") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    with cluster_up():
        yield


@pytest.fixture
def place(up):
    """Have a directory that the nodes see, with the settings of Podman."""
    with shared_directory() as directory:
        # Each node keeps its images in its own memory, below its own /tmp.
        podman_settings(directory, "/tmp/runtimes-storage", "/tmp/runtimes-run", "overlay", NETWORKS)
        yield directory


def environment(place, configuration=CONFIGURATION):
    return {
        **SLURM,
        "RFM_CONFIG_FILES": configuration,
        "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
        "CONTAINERS_CONF": str(place / "containers.conf"),
        # ch-run refuses to start without it.
        "USER": "root",
    }


def left(place):
    """Return what is left on the nodes: containers, their processes, mounts."""
    found = {}
    for node in ("node1", "node2"):
        settings = [f"{name}={value}" for name, value in environment(place).items() if name.startswith("CONTAINERS")]
        containers = cluster("exec", node, "env", *settings, "podman", "ps", "--all", "--quiet").split()
        names = cluster("exec", node, "ps", "-e", "-o", "comm=").split()
        helpers = [name for name in names if name.startswith(("conmon", "squashfuse", "pingpong", "podman", "ch-run"))]
        mounts = [
            line
            for line in cluster("exec", node, "cat", "/proc/self/mountinfo").splitlines()
            if "runtimes-storage/overlay/" in line or "squashfuse" in line
        ]
        if containers or helpers or mounts:
            found[node] = (containers, helpers, mounts)
    return found


def test_mpi_runs_over_two_nodes_in_all_runtimes_and_leaves_nothing(session, place):
    """Integrated is proven as ever: a rank that loads another library than the host's would be a failure."""
    words = ",".join(f"{name}:{word}" for name, word in RUNTIMES.items())
    arguments = (f"--prefix={place}", "-n", "PingPong%variant=(integrated|generic)%num_nodes=2", *FEW)
    result = session(*arguments, "-S", f"runtimes={words}", checks=CHECKS, **environment(place))
    for variant in ("integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", case["fail_reason"]
        labels = {row["subject_label"] for row in case["results"] if row["metric"] == "bandwidth_between_nodes"}
        assert labels == {*RUNTIMES}
        started = case["provenance"]["started"]
        assert {started[name] for name in RUNTIMES} == {"by the job's launcher"}
        # The host's directories are bound below /host; what a generic container loads is its own.
        loaded = {name: case["provenance"]["mpi"][name] for name in RUNTIMES}
        assert all(
            path.startswith("/host/") == (variant == "integrated") for paths in loaded.values() for path in paths
        )
        versions = case["provenance"]["runtimes"]
        assert versions["unpacked"]["version"] == versions["file"]["version"] + " (unpacked)"
    assert left(place) == {}


@pytest.fixture
def overlay(place):
    """Have a network that the containers of both nodes join: VXLAN over their Ethernet, as overlay networks are."""
    settings = [f"{name}={value}" for name, value in environment(place).items() if name.startswith("CONTAINERS")]
    for number, node in enumerate(("node1", "node2"), start=1):
        tunnel = ("id", "42", "dstport", "4789", "dev", "eth0", "remote", f"198.18.0.{3 - number}")
        cluster("exec", node, "ip", "link", "add", "overlay0", "type", "vxlan", *tunnel)
        cluster("exec", node, "ip", "link", "set", "overlay0", "up")
        # Each node gives its containers addresses of its own.
        addresses = ("--subnet=10.42.0.0/24", f"--ip-range=10.42.0.{64 * number}/26")
        network = ("--driver=macvlan", "--opt=parent=overlay0", *addresses, "overlay")
        cluster("exec", node, "env", *settings, "podman", "network", "create", *network)
    yield "overlay"
    for node in ("node1", "node2"):
        cluster("exec", node, "env", *settings, "podman", "network", "rm", "--force", "overlay")
        cluster("exec", node, "ip", "link", "delete", "overlay0")


#: Candidates, with the name of a process that their containers have beside the program.
TERMINATED = {
    "engine and directory": ("podman:podman,unpacked:apptainer+unpacked", "conmon"),
    "overlay": ("host:podman,overlay:podman+overlay", "conmon"),
}


@pytest.mark.parametrize(
    "name", [next(iter(TERMINATED)), *(pytest.param(name, marks=pytest.mark.long) for name in [*TERMINATED][1:])]
)
def test_a_terminated_session_leaves_no_container_on_any_node(place, request, name):
    words, helper = TERMINATED[name]
    configuration = CONFIGURATION
    if name == "overlay":
        configuration = write_overlay_site(place, request.getfixturevalue("overlay"))
    arguments = (f"--prefix={place}", "-n", "PingPong%variant=generic%num_nodes=2", "-S", "rounds=50", "-S", "quiet=0")
    variables = environment(place, configuration)
    command, facts = reframe_command(place, *arguments, "-S", f"runtimes={words}", checks=CHECKS, **variables)
    session = subprocess.Popen(command, **facts)
    try:

        def is_running():
            names = [cluster("exec", node, "ps", "-e", "-o", "comm=").split() for node in ("node1", "node2")]
            return all("pingpong" in each and any(other.startswith(helper) for other in each) for each in names)

        assert eventually(is_running, 300)
        session.send_signal(signal.SIGTERM)
        session.communicate(timeout=120)
    finally:
        session.kill()
        session.wait()
    assert eventually(lambda: left(place) == {}, 60), left(place)


def write_overlay_site(place, network):
    """Write the site file of nodes whose containers may have a network of their own, and return its path."""
    site = SITE.format(path=CONFIGURATION, engine="Podman")
    # The nodes are one machine, and the mpirun of each container would bind its first rank to the same core.
    extras = {"container_network": network, "binding": "none"}
    (place / "site.py").write_text(f'{site}        partition["extras"]["containercheck"].update({extras})\n')
    return str(place / "site.py")


@pytest.mark.long
def test_mpi_runs_over_two_nodes_by_dockers_command_line(session, place):
    """Docker's words and Debian's podman-docker: environment by name, host's network, an archive that is loaded."""
    (place / "bin").mkdir()
    write_program(place / "bin" / "docker", 'exec podman "$@"')
    words = f"docker:{place}/bin/docker,podman:podman"
    arguments = (f"--prefix={place}", "-n", "PingPong%variant=(integrated|generic)%num_nodes=2", *FEW)
    result = session(*arguments, "-S", f"runtimes={words}", checks=CHECKS, **environment(place))
    for variant in ("integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", case["fail_reason"]
        assert case["provenance"]["started"]["docker"] == "by the job's launcher"
        loaded = case["provenance"]["mpi"]["docker"]
        assert loaded and all(path.startswith("/host/") == (variant == "integrated") for path in loaded)
    assert left(place) == {}


@pytest.mark.long
def test_containers_may_have_a_network_of_their_own_over_two_nodes(session, place, overlay):
    """One container on each node, mpirun in them (D12.6 section 6.4.2): what it costs is seen beside Ethernet."""
    configuration = write_overlay_site(place, overlay)
    arguments = (f"--prefix={place}", "-n", "PingPong%variant=generic%num_nodes=2", *FEW)
    more = ("-S", "runtimes=host:podman,overlay:podman+overlay")
    variables = environment(place, configuration)
    case = session(*arguments, *more, checks=CHECKS, **variables).case("generic")
    assert case["result"] == "pass", case["fail_reason"]
    started = case["provenance"]["started"]
    assert started["host"] == "by the job's launcher"
    assert started["overlay"] == IN_OWN_NETWORK
    rows = {row["subject_label"]: row for row in case["results"] if row["metric"] == "bandwidth_between_nodes"}
    bandwidth = {name: row["subject"] for name, row in rows.items()}
    # Both go over the Ethernet of 1 Gbit/s, whose limit lets bursts through; the fabric has several times as much. Of
    # each 1500 bytes 50 are VXLAN's: 3.4 %, less than rounds may spread here.
    assert all(10 < value < 250 for value in bandwidth.values()), bandwidth
    assert left(place) == {}


#: A partition of two nodes without a scheduler: mpirun starts ranks over ssh, on the nodes of a list.
LISTED = """
site_configuration = {{"systems": [{{"name": "listed", "hostnames": ["node1"], "partitions": [{{
    "name": "nodes", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"],
    "processor": {{"num_cpus": 1, "num_cpus_per_core": 1, "num_cpus_per_socket": 1, "num_sockets": 1}},
    "env_vars": [["OMPI_MCA_orte_default_hostfile", "{place}/hosts"], ["OMPI_MCA_plm_rsh_agent", "{place}/ssh"]],
    "container_platforms": [{{"type": "{engine}", "env_vars": {variables}}}],
    "extras": {{"containercheck": {{"max_nodes": 2, "container_network": "overlay", "binding": "none"}}}},
}}]}}]}}
"""
#: Variables of an engine that name its storage.
STORAGES = {
    "Podman": {"CONTAINERS_STORAGE_CONF": "{place}/storage.conf", "CONTAINERS_CONF": "{place}/containers.conf"},
    "Docker": {"DOCKER_HOST": "unix:///tmp/docker/socket"},
}
DOCKERD = (
    *("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"),
    *("--data-root=/tmp/docker/data", "--exec-root=/tmp/docker/exec", "--pidfile=/tmp/docker/pid"),
    *("--default-ulimit=nofile=1024:1024", "--host=unix:///tmp/docker/socket"),
)


@contextlib.contextmanager
def on_both_nodes(command, answers):
    """Have a daemon on both nodes, once a command succeeds there."""
    ends = ("setpriv", "--pdeathsig=TERM", *command)
    with contextlib.ExitStack() as stack:
        for node in ("node1", "node2"):
            words = [CLUSTER, "exec", node]
            daemon = subprocess.Popen([*words, *ends], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(daemon.wait, 60)
            stack.callback(daemon.terminate)
            started = functools.partial(subprocess.run, [*words, *answers], capture_output=True)
            assert eventually(lambda started=started: started().returncode == 0, 60, daemon), started()
        yield


@pytest.fixture
def ssh(place):
    """Have a server of ssh on both nodes, and a client that it knows."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/bin") or pytest.skip("needs sshd")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
    options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    write_program(place / "ssh", f'exec ssh -i {place}/user {options} "$@"')
    # The list has more slots than a job has ranks on a node.
    (place / "hosts").write_text("node1 slots=2\nnode2 slots=2\n")
    os.makedirs("/run/sshd", exist_ok=True)
    words = [f"HostKey={place}/host", f"AuthorizedKeysFile={place}/user.pub", "StrictModes=no", "UsePAM=no"]
    command = [server, "-D", "-f", "/dev/null", *(f"-o{word}" for word in [*words, "PidFile=none"])]
    with on_both_nodes(command, [place / "ssh", "localhost", "true"]):
        yield


@pytest.mark.parametrize(
    ("engine", "way"),
    [
        ("Podman", ""),
        pytest.param("Docker", "", marks=pytest.mark.long),
        pytest.param("Podman", "+overlay", marks=pytest.mark.long),
    ],
)
def test_engines_run_over_ssh_on_the_nodes_of_a_list(session, place, ssh, request, engine, way):
    """Lenox of D12.6 has no scheduler: mpirun's own ssh starts a container for each rank, or one on each node."""
    if engine == "Docker" and not shutil.which("dockerd"):
        pytest.skip("needs dockerd")
    if way:
        request.getfixturevalue("overlay")
    given = [[name, value.format(place=place)] for name, value in STORAGES[engine].items()]
    (place / "site.py").write_text(LISTED.format(place=place, engine=engine, variables=given))
    settings = {"RFM_CONFIG_FILES": f"{REPOSITORY}/config/common.py:{place}/site.py", "RFM_SYSTEM": "listed"}
    variants = "generic" if way else "(integrated|generic)"
    arguments = [f"--prefix={place}", "-n", f"PingPong%variant={variants}%num_nodes=2", *FEW]
    arguments += ["-S", f"runtimes=overlay:{engine.lower()}{way},file:apptainer"] if way else []
    answers = ["env", "DOCKER_HOST=unix:///tmp/docker/socket", "docker", "ps"]
    with on_both_nodes(DOCKERD, answers) if engine == "Docker" else contextlib.nullcontext():
        result = session(*arguments, checks=CHECKS, node="node1", **settings)
    assert result.status == 0, result.output
    for case in result.cases:
        loaded = [*case["provenance"]["mpi"].values()]
        assert case["result"] == "pass" and loaded, case["fail_reason"]
        started = {"by the job's launcher", *([IN_OWN_NETWORK] if way else [])}
        assert {*case["provenance"]["started"].values()} == started
    assert left(place) == {}


def test_containers_may_be_an_option_of_srun(session, place):
    """The options are the engine's, the launcher is Slurm's, and the containers are real."""
    write_srun(place / "bin")
    (place / "site.py").write_text(SITE.format(path=CONFIGURATION, engine="Pyxis"))
    variables = {**environment(place, str(place / "site.py")), "PATH": f"{place}/bin:{os.environ['PATH']}"}
    arguments = (f"--prefix={place}", "-n", "PingPong%variant=(integrated|generic)%num_nodes=2", *FEW)
    result = session(*arguments, checks=CHECKS, **variables)
    for variant in ("integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", case["fail_reason"]
    scripts = [path.read_text() for path in (place / "stage").rglob("01-subject/run.sh")]
    assert len(scripts) == 2 and all(" --container-image=" in text for text in scripts)
    assert left(place) == {}
    records = [json.loads(path.read_text()) for path in place.rglob("rounds.json")]
    assert {run["side"] for record in records for run in record["runs"]} == {"baseline", "subject"}
