"""Sessions on the virtual cluster: what the fabric does to each variant, and what happens when things break."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import (
    REPOSITORY,
    SLURM,
    STATE,
    cluster,
    cluster_up,
    eventually,
    run_command,
    shared_directory,
    write_program,
)
from containercheck.job.explain import explanation
from containercheck.site import hosts

# ReFrame matches names without their blanks.
PING_PONG = "PingPong%variant={}%num_nodes=2"

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")]


@pytest.fixture(scope="module", autouse=True)
def up():
    with cluster_up():
        yield


@pytest.fixture
def on_cluster(session, up):
    """Run a session on the cluster, in a directory that its nodes see."""
    cluster("up")

    def run(*arguments, checks=REPOSITORY / "checks"):
        return session(f"--prefix={run.place}", *arguments, checks=checks, **SLURM)

    with shared_directory() as run.place:
        yield run


def bandwidth(case):
    """Return the row of the bandwidth between nodes."""
    return next(row for row in case["results"] if row["metric"] == "bandwidth_between_nodes")


def meanwhile(place, action):
    """Do something once the first run of the Ping Pong job under ``place`` has ended."""

    def ran():
        records = [json.loads(path.read_text()) for path in place.rglob("PingPong_*/rounds.json")]
        return any(record["runs"] for record in records)

    def wait():
        if eventually(ran, 900):
            action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_the_fabric_is_lost_in_the_generic_container_only(on_cluster):
    result = on_cluster("-n", PING_PONG.format("(integrated|generic)"), "-S", "rounds=3")
    # Once, however many images there are.
    assert result.output.count("asking a node of virtual-cluster:compute for its C library") == 1, result.output
    fitting = hosts.release_for(tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))))
    assert result.case("generic")["provenance"]["image_release"] == fitting
    assert result.case("generic")["provenance"]["started"] == {"subject": "by the job's launcher"}
    integrated, generic = (bandwidth(result.case(variant)) for variant in ("integrated", "generic"))
    # SANDIA VI.B and D12.6 6.9.1: a factor of ten, or none. On a loaded machine the fabric is slower, the other is not.
    assert integrated["subject"] > 0.5 * integrated["baseline"]
    assert generic["expected"], result.output
    assert generic["subject"] < 0.5 * generic["baseline"]


def test_an_integrated_container_that_loses_the_fabric_fails(on_cluster):
    lost = "APPTAINERENV_OMPI_MCA_btl_tcp_if_include:eth0"
    result = on_cluster("-n", PING_PONG.format("integrated"), "-S", "seconds=300", "-S", f"env_vars={lost}")
    case = result.case("integrated")
    assert (result.status != 0, case["fail_phase"]) == (True, "performance"), result.output
    assert "bandwidth_between_nodes is" in case["fail_reason"]
    assert bandwidth(case)["verdict"] == "fail"
    assert bandwidth(case)["subject"] < 0.5 * bandwidth(case)["baseline"]
    # And why, the likeliest first: of what both sides saw, and of what they used.
    first = case["causes"][0]
    assert first["sentence"].startswith("OMPI_MCA_btl_tcp_if_include=eth0 is set by APPTAINERENV_"), case["causes"]
    assert first["experiment"]
    assert any(re.match("MPI talks over eth0 in the container, over fab0", each["sentence"]) for each in case["causes"])
    # What both sides saw is known of both nodes.
    for side in ("baseline", "subject"):
        (path,) = on_cluster.place.rglob(f"PingPong_*/{side}.observed.json")
        seen = json.loads(path.read_text())
        assert {seen["host"], *seen["nodes"]} == {"node1", "node2"}, seen


@contextlib.contextmanager
def runtime_of(on_cluster, nodes, commands):
    """Have containers of some nodes started by a shell script.

    :param commands: of it; they change its arguments.
    """
    path = Path(shutil.which("apptainer")).resolve()
    script, program = (on_cluster.place / name for name in ("apptainer", "programs"))
    program.mkdir()
    write_program(script, f'{commands}\nexec {program}/bin/apptainer "$@"')
    for node in nodes:
        # The program finds its own files from where it lies.
        cluster("exec", node, "mount", "--bind", str(path.parents[1]), str(program))
        cluster("exec", node, "mount", "--bind", str(script), str(path))
    try:
        yield
    finally:
        for node in nodes:
            cluster("exec", node, "umount", str(path))
            cluster("exec", node, "umount", str(program))


#: A runtime that binds other settings of MPI than the host's, unless a person binds these too.
OTHER_SETTINGS = """
bound=0
for word do case $word in -B/etc/openmpi:*) bound=$((bound + 1)) ;; esac; done
for word do
    shift
    case $bound$word in 1-B/etc/openmpi:*) word=-B{settings}:/etc/openmpi ;; esac
    set -- "$@" "$word"
done"""


@pytest.mark.long
def test_settings_of_the_host_that_do_not_reach_the_container_are_tried_by_a_bind(on_cluster):
    """The example of the design: Ethernet in place of the fabric, as the image does not see the host's parameters."""
    settings = on_cluster.place / "settings"
    shutil.copytree(STATE / "openmpi", settings)
    file = settings / "openmpi-mca-params.conf"
    file.write_text(file.read_text().replace("btl_tcp_if_include = fab0", "btl_tcp_if_include = eth0"))
    own = {
        **SLURM,
        "RFM_PREFIX": str(on_cluster.place),
        "RFM_REPORT_FILE": str(on_cluster.place / "reports" / "last.json"),
        "RFM_SQLITE_DB_FILE": str(on_cluster.place / "results.db"),
    }
    words = ["run", "--nocolor", "-n", PING_PONG.format("integrated"), "-S", "seconds=300"]
    with runtime_of(on_cluster, ["node1", "node2"], OTHER_SETTINGS.format(settings=settings)):
        done = run_command(*words, patience=1200, **own)
    assert done.returncode == 1, done.stdout
    printed = " ".join(done.stdout.split())
    # What differs, the experiment with its metrics, and what to do, word by word. Whether the bind is all of it depends
    # on how quiet the machine is.
    for pattern in (
        r"bandwidth_between_nodes is \S+ .{1,30}worse than bare",
        r"(the|a) cause: btl_tcp_if_include = fab0 of /etc/openmpi/openmpi-mca-params.conf on the host does not reach "
        "the container",
        r"(proven: )?with /etc/openmpi of the host bound the overhead of bandwidth_between_nodes is [-+]\S+ \([-+]\S+ "
        r"to [-+]\S+\) %",
        r'do: "binds": \["/etc/openmpi"\] in the site\'s file',
    ):
        assert re.search(pattern, printed), done.stdout
    report = json.loads((on_cluster.place / "reports" / "last.json").read_text())
    causes = report["runs"][-1]["testcases"][-1]["causes"]
    # Binding it helps: the verdict of a failure, of the container against itself with the bind.
    assert explanation.helps(next(cause for cause in causes if cause["about"] == "btl_tcp_if_include"))
    assert any(cause["sentence"].startswith("MPI talks over eth0 in the container, over fab0") for cause in causes)


def test_a_fault_of_the_second_node_only_is_named_with_that_node(on_cluster):
    """There the container sees a file by which MPI cuts messages small; a rank of the first node sees nothing wrong."""
    settings = on_cluster.place / "settings"
    shutil.copytree(STATE / "openmpi", settings)
    with (settings / "openmpi-mca-params.conf").open("a") as file:
        file.write("btl_tcp_max_send_size = 1500\nbtl_tcp_rdma_pipeline_frag_size = 1500\n")
    with runtime_of(on_cluster, ["node2"], OTHER_SETTINGS.format(settings=settings)):
        result = on_cluster("-n", PING_PONG.format("integrated"), "-S", "rounds=3")
    case = result.case("integrated")
    assert (result.status != 0, case["fail_phase"]) == (True, "performance"), result.output
    assert re.search("on node2: btl_tcp_", case["fail_reason"]), case["fail_reason"]


def test_a_dead_node_fails_its_check_with_that_reason_and_the_session_goes_on(on_cluster):
    breaking = meanwhile(on_cluster.place, lambda: cluster("kill-node", "node2"))
    # The one-node check comes after it, and runs on the node that is left.
    selection = f"({PING_PONG.format('generic')}|HPCC%variant=bare%num_nodes=1)"
    result = on_cluster("-n", selection, "-S", "rounds=20", "-S", "HPCC.rounds=1", "--exec-order=rname")
    breaking.join()
    dead = result.case("generic", "PingPong")
    assert dead["result"] == "fail"
    # Before its runs have failed twice, or after: Slurm's word for it is another.
    assert re.search(r"Slurm says (NODE_FAIL|node2 down)", dead["fail_reason"]), dead["fail_reason"]
    assert result.case("bare", "HPCC")["result"] == "pass"


@pytest.mark.long
def test_a_restarted_controller_loses_nothing(on_cluster):
    def restart():
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "comm").read_text() == "slurmctld\n" and str(STATE) in (process / "cmdline").read_text():
                    os.kill(int(process.name), signal.SIGTERM)
            except OSError:
                continue
        # Longer than ReFrame needs to ask squeue in vain.
        time.sleep(6)
        cluster("up")

    breaking = meanwhile(on_cluster.place, restart)
    result = on_cluster("-n", PING_PONG.format("bare"), "-S", "rounds=8")
    breaking.join()
    assert result.case("bare")["result"] == "pass", result.output
    assert len(result.case("bare")["results"]) == 2


@pytest.fixture
def lost_packets(up):
    """Drop what reaches the nodes over the slow network on the ports that MPI is given; Slurm's stay open."""
    drop = ["rule add pref 100 lookup local", "rule add pref 10 iif eth0 ipproto tcp dport 20000-20999 blackhole"]
    undo = ["rule add pref 0 lookup local", "rule del pref 10", "rule del pref 100"]
    # Not from the range that connections take their ports from, where Slurm may have one.
    # Addresses of the node itself are looked up first, before any rule could drop a packet to them.
    for node in ("node1", "node2"):
        for command in [*drop, "rule del pref 0"]:
            cluster("exec", node, "ip", *command.split())
    # What the job itself has of MPI's settings does not reach a generic container.
    ports = {"min": 20000, "range": 999}
    yield ",".join(f"APPTAINERENV_OMPI_MCA_btl_tcp_port_{name}_v4:{value}" for name, value in ports.items())
    for node in ("node1", "node2"):
        for command in undo:
            cluster("exec", node, "ip", *command.split())


def test_ranks_that_cannot_connect_are_named_as_a_hang_and_the_session_ends(on_cluster, lost_packets):
    selection = PING_PONG.format("generic")
    result = on_cluster("-n", selection, "-S", "rounds=2", "-S", "run_limit=15", "-S", f"env_vars={lost_packets}")
    case = result.case("generic")
    assert case["result"] == "fail"
    assert "subject: hangs: killed at its limit of 15 s" in case["fail_reason"], case["fail_reason"]
    # What keeps them from it is the network that the container takes: the same job proves it.
    assert "the cause: btl_tcp_if_include = fab0" in case["fail_reason"], case["fail_reason"]
    proof = "proven: with OMPI_MCA_btl_tcp_if_include=fab0 all of 5 runs ended well, and 0 of 3 without"
    assert proof in case["fail_reason"], case["fail_reason"]
    # The bare program, over the fabric, is not touched by it.
    assert "baseline" not in case["fail_reason"]


@pytest.mark.long
def test_a_job_that_waits_too_long_in_the_queue_says_so(on_cluster):
    slurm = dict(os.environ, SLURM_CONF=str(STATE / "slurm.conf"))
    taken = ["sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 120"]
    job = subprocess.run(taken, env=slurm, check=True, capture_output=True, text=True).stdout.strip()
    try:
        result = on_cluster("-n", PING_PONG.format("bare"), "-S", "max_pending_time=5s")
    finally:
        subprocess.run(["scancel", job], env=slurm, check=True)
    case = result.case("bare")
    assert case["result"] == "fail"
    assert "pending time" in case["fail_reason"], case["fail_reason"]


@pytest.mark.long
def test_a_job_that_meets_its_time_limit_is_judged_by_its_complete_rounds(on_cluster):
    # Forty rounds of ten seconds: the limit comes after five. One round is expected to take half a run's limit.
    options = ["-S", "rounds=40", "-S", "lasts=5", "-S", "run_limit=60", "-S", "time_limit=1m"]
    result = on_cluster("-n", "Planted%variant=generic", *options, checks=REPOSITORY / "ci/tests/planted")
    case = result.case("generic")
    assert (result.status, case["result"]) == (0, "pass"), result.output
    said = r"the job was ended \(SIGTERM\) before its last round: judged by the (\d+) that are complete"
    found = re.search(said, result.output)
    assert found, result.output
    record = json.loads(next((on_cluster.place / "stage").rglob("rounds.json")).read_text())
    assert (record["complete"], record["ended"]) == (False, "SIGTERM")
    assert int(found[1]) == len(record["runs"]) // 2 - len(record["replaced"]) > 1
    (row,) = case["results"]
    assert row["verdict"] in ("pass", "inconclusive")


def test_a_stage_directory_that_the_nodes_do_not_see_is_named(on_cluster):
    hidden = tempfile.mkdtemp(dir="/tmp")
    try:
        result = on_cluster("-n", PING_PONG.format("bare"), f"--prefix={hidden}")
    finally:
        shutil.rmtree(hidden)
    reason = result.case("bare")["fail_reason"]
    assert re.search(rf"the job wrote nothing: the nodes do not see {hidden}/stage/\S+: set the stage", reason), reason
