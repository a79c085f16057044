"""What a side sees: from what a rank prints, without secrets; and what the processes of a run use."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY, eventually
from containercheck.job import observation, run_observation
from containercheck.job.explain.observations import DIRECTORY

KEY = b"key"


@pytest.fixture
def printed(tmp_path):
    """Run the script as it runs on the host, and return what it prints."""
    (tmp_path / "observe.sh").write_text(observation.SCRIPT)

    def run(ranks=1, shell="sh", **variables):
        gathering = tmp_path / "gathering"
        gathering.mkdir(exist_ok=True)
        (gathering / "expected").write_text(f"{ranks}\n")
        words = [shell, str(tmp_path / "observe.sh"), str(gathering)]
        started = [
            subprocess.Popen(words, env={**os.environ, **variables}, text=True, stdout=subprocess.PIPE, stderr=-3)
            for _ in range(ranks)
        ]
        return [process.communicate()[0] for process in started]

    return run


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_one_of_several_ranks_prints_what_it_sees_and_no_secret_is_kept(printed, tmp_path, shell):
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi" / "mca-params.conf").write_text("# a comment\nbtl = self,tcp\n mpi_password=hunter2")
    secrets = {name: "hunter2" for name in ("MY_TOKEN", "SLURM_JWT", "APPTAINER_DOCKER_PASSWORD")}
    function = {"BASH_FUNC_seq%%": "() {  echo 1\n}"}
    texts = printed(3, shell, UCX_TLS="rc,sm", NOTE="two\n\nlines=1", HOME=str(tmp_path), **secrets, **function)
    (text,) = (text for text in texts if observation.read(text, KEY, {}))
    assert "hunter2" in text
    job = {
        "APPTAINER_CWD": "/tmp",
        "APPTAINERENV_OMP_NUM_THREADS": "64",
        "APPTAINER_BIND": "/x",
        "APPTAINERENV_TOKEN": "hunter2",
    }
    seen, again = (observation.read(text, key, job, b"lasting") for key in (KEY, b"another job"))
    assert "hunter2" not in repr(seen)
    assert seen["environment"]["UCX_TLS"] == "rc,sm" and "BASH_FUNC_seq%%" in seen["environment"]
    assert re.fullmatch(r"hidden:[0-9a-f]{8}", seen["environment"]["NOTE"]) and "lines" not in seen["environment"]
    # Those of the job change with it; those that last do not, and secrets have none.
    assert seen["environment"]["NOTE"] != again["environment"]["NOTE"]
    assert seen["fingerprints"] == again["fingerprints"] and re.fullmatch("[0-9a-f]{8}", seen["fingerprints"]["NOTE"])
    assert seen["fingerprints"]["MY_TOKEN"] == "" and not any(observation.read(text, KEY, {})["fingerprints"].values())
    assert seen["set_by"]["OMP_NUM_THREADS"] == "APPTAINERENV_OMP_NUM_THREADS"
    assert seen["set_by"][DIRECTORY] == "APPTAINER_CWD"
    assert seen["settings"][f"{tmp_path}/.openmpi/mca-params.conf btl"] == "self,tcp"
    assert seen["limits"]["Max open files"] and seen["hard_limits"]["Max open files"]
    assert seen["status"]["Cpus_allowed_list"] and len(seen["mounts"]["/"]) == 4 and "lo" in seen["interfaces"]
    assert seen["status"]["Home"] == f"{tmp_path.stat().st_ino} {tmp_path}"
    assert seen["status"]["Directory"] == f"{os.stat('.').st_ino} {os.getcwd()}"
    assert seen["status"]["Disk_priority"] in ("none", "best-effort", "idle", "realtime")
    assert [seen["status"][name] for name in ("Nice", "Policy")] == [str(os.nice(0)), str(os.sched_getscheduler(0))]
    assert seen["space"]["/dev/shm"][0] >= 0
    assert seen["machine"] == os.uname().machine and seen["libc"].startswith("glibc")
    assert all(value > 0 for value in seen["cgroup_limits"].values())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_program_of_a_container_that_hides_another_one_in_path_is_seen_with_it(printed, tmp_path, is_first):
    (tmp_path / "observe.sh").write_text(observation.SCRIPT.replace("/.singularity.d", str(tmp_path)))
    place = tmp_path / "shadow"
    place.mkdir()
    for name in ("seq", "of-site"):
        (place / name).touch(mode=0o755)
    (text,) = printed(PATH=f"{place}:/usr/bin:/bin" if is_first else f"/usr/bin:/bin:{place}")
    seen = observation.read(text, KEY, {"APPTAINERENV_PREPEND_PATH": f"{place}:/y"})
    assert seen["hidden_programs"] == ({f"{place}/seq": "/usr/bin/seq"} if is_first else {})
    assert seen["set_by"][f"PATH {place}"] == seen["set_by"]["PATH /y"] == "APPTAINERENV_PREPEND_PATH"


def test_a_rank_that_never_comes_is_not_waited_for_for_ever(printed, tmp_path):
    (tmp_path / "gathering").mkdir()
    began = time.monotonic()
    gathering = tmp_path / "gathering"
    (gathering / "expected").write_text("5\n")
    text = subprocess.run(
        ["sh", str(tmp_path / "observe.sh"), str(gathering)], text=True, stdout=subprocess.PIPE, stderr=-3
    ).stdout
    assert observation.read(text, KEY, {})
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("text", ["", "FATAL: no such image\n", f"{observation.TITLE}environment\nA=b\0"])
def test_what_is_not_whole_is_no_observation(text):
    assert observation.read(text, KEY, {}) == {}


def test_scripts_that_a_runtime_gives_each_image_are_none_of_the_images(printed):
    scripts = [f"/.singularity.d/env/{name}" for name in ("01-base.sh", "90-environment.sh", "99-runtimevars.sh")]
    (text,) = printed()
    text = text.replace(f"{observation.TITLE}hooks\n", f"{observation.TITLE}hooks\n" + "\n".join(scripts))
    assert observation.read(text, KEY, {})["hooks"] == [scripts[1]]


def test_a_run_is_watched_to_its_end(tmp_path):
    observer = run_observation.Observer()
    program = "import time, threading\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    process = subprocess.Popen(["python3", "-c", program])
    observer.start()
    process.wait()
    observer.finish()
    used = observer.result()
    assert used["user"] + used["system"] > 0.2 and used["disk"] >= 0
    assert used["threads"] == 1 and 0 < used["processors"] <= os.cpu_count()
    assert any("/libc" in path for path in used["libraries"])
    assert used["throttled"] == [] or len(used["throttled"]) == 3


def made(place, files):
    """Write files below a directory, and return it."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{text}\n")
    return place


def test_limits_of_both_versions_of_cgroups_are_found(tmp_path):
    second = made(
        tmp_path / "two",
        {"job/cpu.max": "50000 100000", "job/step/cpu.max": "max 100000"}
        | {"job/memory.max": "2000000", "job/step/memory.max": "max", "job/step/memory.high": "1000000"},
    )
    assert run_observation.quotas("0::/job/step\n", second) == [(str(second / "job"), 0.5)]
    assert run_observation.memory_limit("0::/job/step\n", second) == 1000000
    assert run_observation.memory_limit("0::/job\n", second) == 2000000
    first = made(
        tmp_path / "one",
        {"cpu/docker/cpu.cfs_quota_us": "20000", "cpu/docker/cpu.cfs_period_us": "100000"}
        | {"cpu/cpu.cfs_quota_us": "-1", "memory/docker/memory.limit_in_bytes": "3000000"}
        # The kernel's name for no limit.
        | {"memory/memory.limit_in_bytes": "9223372036854771712"},
    )
    found = run_observation.quotas("3:cpuset:/docker\n4:cpu,cpuacct:/docker\n", first)
    assert found == [(str(first / "cpu" / "docker"), 0.2)]
    assert run_observation.memory_limit("4:memory:/docker\n", first) == 3000000
    assert run_observation.memory_limit("4:memory:/\n", first) == 0
    swapped = made(
        tmp_path / "swapped",
        {f"cpu,cpuacct/job/cpu.cfs_{name}_us": text for name, text in (("quota", 50000), ("period", 100000))},
    )
    assert run_observation.quotas("4:cpuacct,cpu:/job\n", swapped) == [(str(swapped / "cpu,cpuacct" / "job"), 0.5)]
    for read in (run_observation.quotas, run_observation.memory_limit):
        assert not read("0::/\n", tmp_path / "none")


def test_a_connection_is_of_the_interface_with_the_longest_route(tmp_path):
    (tmp_path / "net").mkdir()
    routes = ["Iface Destination Gateway Flags RefCnt Use Metric Mask", "eth0 0000000A 00000000 1 0 0 0 000000FF"]
    routes += ["fab0 0000137F 00000000 1 0 0 0 00FFFFFF", "eth1 0001000A 00000000 1 0 0 0 00FFFFFF"]
    (tmp_path / "net" / "route").write_text("\n".join(routes) + "\n")
    addresses = ("10.2.0.1", "10.0.1.7", "127.19.0.1", "127.0.0.1", "192.168.0.1")
    found = [run_observation.interface_of(address, tmp_path) for address in addresses]
    assert found == ["eth0", "eth1", "fab0", "lo", ""]


def test_what_differs_on_other_nodes_is_kept_without_their_environment(tmp_path, printed):
    (text,) = printed()
    first = observation.read(text, KEY, {})
    assert first["host"] == os.uname().nodename
    # The shell of another node finds that one prints already.
    gathering = tmp_path / "others"
    (gathering / "printer").mkdir(parents=True)
    (gathering / "expected").write_text("1\n")
    script = f"ulimit -l 64; exec sh {tmp_path / 'observe.sh'} {gathering}"
    settings = tmp_path / "home" / ".openmpi" / "mca-params.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("btl_tcp_if_include = eth0\n")
    environment = {**os.environ, "MY_TOKEN": "hunter2", "HOME": str(tmp_path / "home")}
    done = subprocess.run(["sh", "-c", script], env=environment, text=True, stdout=-1, stderr=-3)
    assert done.stdout == ""
    (seen,) = gathering.glob("node.*/seen")
    assert "hunter2" not in seen.read_text()
    assert seen.stat().st_mode & 0o077 == 0
    seen.parent.rename(gathering / "node.node2")
    (gathering / "node.unfinished").mkdir()
    (gathering / "node.unfinished" / "seen").write_text(f"{observation.TITLE}limits\n")
    found = observation.of_other_nodes(gathering, first, KEY)
    assert list(found) == ["node2"]
    assert found["node2"]["limits"]["Max locked memory"] == "65536"
    assert found["node2"]["settings"][f"{settings} btl_tcp_if_include"] == "eth0"
    assert "environment" not in found["node2"] and "libc" not in found["node2"]


def test_limits_of_cgroups_are_read_from_inside():
    second = ["cpu.max 50000 100000 /job/", "cpu.max max 100000 /", "memory.max max /job/", "memory.high 1000 /job/"]
    first = ["cpu.cfs_quota_us -1 /", "cpu.cfs_quota_us 150000 /a/", "cpu.cfs_period_us 100000 /a/", "pids.max 64 /a/"]
    first += ["memory.limit_in_bytes 9223372036854771712 /", "cpu.cfs_period_us 100000 /"]

    def limits(lines):
        return observation._cgroup_limits([line.split() for line in lines])

    assert limits(second) == {"processors": 0.5, "memory": 1000}
    assert limits(first) == {"processors": 1.5, "processes": 64}
    assert limits(["pids.max /"]) == limits([]) == {}


def test_connections_of_both_versions_of_ip_and_devices_of_fabrics_are_seen(tmp_path, monkeypatch):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    client = socket.create_connection(server.getsockname())
    assert run_observation.opened(os.getpid())[0] >= {"lo"}
    client.close()
    server.close()
    net = tmp_path / "net"
    net.mkdir()
    heading = "sl local_address rem_address st tx_queue tr tm->when retrnsmt uid inode"
    row = "0: {}:A0B0 {}:0050 01 0 0 0 0 0 {}"
    own, mapped = "000080FE" + 8 * "0" + "FF00A4E2" + "01000000", 16 * "0" + "FFFF0000" + "0700000A"
    lines = [row.format(address, address, inode) for address, inode in ((own, 7), (mapped, 8), (own, 9))]
    (net / "tcp6").write_text("\n".join([heading, *lines]) + "\n")
    (net / "if_inet6").write_text("fe80000000000000e2a400ff00000001 02 40 20 80    fab0\n")
    (net / "route").write_text(
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 0000000A 0 1 0 0 0 00FFFFFF\n"
    )
    assert run_observation._interfaces(tmp_path, {"7", "8"}) == {"fab0", "eth0"}
    assert run_observation._interfaces(tmp_path, {"8"}) == {"eth0"}
    targets = ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm", "/dev/null", "socket:[7]"]
    monkeypatch.setattr(run_observation.processes, "open_files", lambda place: targets)
    assert run_observation.opened(os.getpid())[1] == {"/dev/infiniband/uverbs0"}


#: Prints how many bytes were read of a script that prints without an end, or whose pipe stays open.
READ = """
import subprocess
from containercheck.job import processes
command = ["bash", "-c", open("observe").read()]
print(len(processes.output_of(command, {patience}, most=1000, stderr=subprocess.DEVNULL)))
"""
#: Runs on when the observation has ended: it is no descendant, and has another environment.
STRANGER = "(env -i setsid sh -c 'echo $$ >pid; exec sleep 600' &)\nuntil [ -s pid ]; do sleep 0.1; done\necho seen\n"


def read(directory, script, patience):
    (directory / "observe").write_text(script)
    words = [sys.executable, "-c", READ.format(patience=patience)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "checks")}
    return int(subprocess.run(words, cwd=directory, env=environment, capture_output=True, check=True).stdout)


def test_an_observation_ends_though_a_stranger_holds_its_output(tmp_path):
    try:
        assert read(tmp_path, STRANGER, 3) == len("seen\n")
    finally:
        # It is still there: nobody waited for its end.
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_no_more_is_read_of_an_observation_than_a_record_holds(tmp_path):
    assert read(tmp_path, "yes\n", 600) == 1000


@pytest.mark.parametrize(
    ("program", "words"), [("cat", "for its standard input (pipe)"), ("cat /dev/fd/3", "for pipe"), ("sleep 60", "")]
)
def test_a_process_that_reads_waits_for_its_standard_input_or_another_file(program, words):
    reading, writing = os.pipe()
    reader = subprocess.Popen(["sh", "-c", f"exec {program} 3<&0"], stdin=reading)

    def waits():
        _, word, place = run_observation.state_of(reader.pid, "S").partition("for ")
        return word + place == words

    try:
        assert eventually(waits, 30), run_observation.state_of(reader.pid, "S")
    finally:
        reader.kill()
        reader.wait()
        os.close(reading)
        os.close(writing)


def test_a_run_that_hangs_has_the_states_of_its_processes():
    """One of three is stopped, and one is not a rank."""
    observer = run_observation.Observer()
    of_rank = [{**os.environ, "PMIX_RANK": number} for number in ("0", "1")]
    ranks = [subprocess.Popen(["sleep", "60"], env=environment) for environment in (*of_rank, None)]
    ranks[0].send_signal(signal.SIGSTOP)
    expected = re.compile(r"rank 0 stopped(?: in \w+)?, 2 processes waiting(?: in \w+)?$")

    def words():
        return run_observation.states_in_words(observer.result().get("states", {}))

    observer.start()
    try:
        # The first look may find them before they sleep.
        assert eventually(lambda: expected.match(words()), 30), words()
    finally:
        observer.finish()
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert expected.match(words()), words()
