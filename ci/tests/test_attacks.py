"""What one user of a machine cannot do to another: each attack is made for real, as two ordinary users."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import CLUSTER, STATE
from users import ALICE, BOB, home_of, need_root, run_as, start_as

pytestmark = need_root


@pytest.fixture
def alice(tmp_path):
    """Return the home of one user."""
    return home_of(ALICE, tmp_path)


@pytest.fixture
def bob(tmp_path):
    """Return the home of the other, who is up to no good."""
    return home_of(BOB, tmp_path)


@contextlib.contextmanager
def running(user, home, *command, **variables):
    """Have a program of a user run, which has printed its first line."""
    process = start_as(user, home, *command, **variables)
    try:
        first = process.stdout.readline()
        if not first:
            pytest.skip(f"{command[0]} cannot be run here")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# The virtual cluster

#: A node that no cluster has.
NOBODYS = "node99"
#: Has namespaces of its own, in which its user is root.
PRETENDS = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "echo ready; cat")


@pytest.mark.parametrize("action", [("exec", NOBODYS, "id"), ("kill-node", NOBODYS)], ids=["exec", "kill"])
def test_a_process_that_says_that_it_is_a_node_is_none(bob, action):
    with running(BOB, bob, *PRETENDS, VIRTUAL_CLUSTER_PART=f"{NOBODYS}@{STATE}") as pretender:
        done = subprocess.run([CLUSTER, *action], cwd="/", text=True, capture_output=True, timeout=60)
        assert f"no node '{NOBODYS}' is running" in done.stderr
        assert done.returncode != 0
        assert pretender.poll() is None


def parts(records, *pattern):
    """Return the processes that the cluster takes for its own, by these records of them."""
    source = f'. {CLUSTER.parent}/virtual_cluster/processes.sh; records="$1"; processes_of "$2"'
    done = subprocess.run(["bash", "-euc", source, "-", records, *pattern], text=True, capture_output=True, check=True)
    return done.stdout.split()


def began(pid):
    """Return when a process began, as the kernel counts it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


BOOT = Path("/proc/sys/kernel/random/boot_id")


def test_a_record_of_the_cluster_holds_for_one_process_of_roots_and_one_boot(bob, tmp_path):
    """An id is given to another process in time, and its times count from the boot."""
    records = tmp_path / "processes"
    records.mkdir()
    record, boot = records / "switch", BOOT.read_text().strip()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as own, running(BOB, bob, *PRETENDS) as others:
        for process, expected in ((own, [str(own.pid)]), (others, [])):
            record.write_text(f"{process.pid} {began(process.pid)} {boot}\n")
            assert parts(records, "switch") == parts(records, "*") == expected
        for line in (f"{own.pid} 1 {boot}", f"{own.pid} {began(own.pid)} another-boot", "", "../1 1 1", f"{own.pid}"):
            record.write_text(line + "\n")
            assert parts(records, "*") == []
        own.stdin.close()
