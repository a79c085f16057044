"""What one user of a machine cannot do to another: each attack is made for real, as two ordinary users."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import CLUSTER, REPOSITORY, STATE
from users import ALICE, BOB, home_of, need_root, open_directory, run_as, start_as

pytestmark = need_root

PACKAGE = REPOSITORY / "checks" / "containercheck"


@pytest.fixture
def place():
    """Return a directory that both users can enter."""
    with open_directory() as directory:
        yield directory


@pytest.fixture
def alice(place):
    """Return the home of one user."""
    return home_of(ALICE, place)


@pytest.fixture
def bob(place):
    """Return the home of the other, who is up to no good."""
    return home_of(BOB, place)


def hold_words(home, lock):
    """Return the command that holds a lock, for :func:`running`."""
    hold(os.stat(home).st_uid, home, lock, start=lambda user, home, *command, **variables: None)
    return ["/usr/bin/python3", home / "script.py", lock, 60]


@contextlib.contextmanager
def running(user, home, *command, **variables):
    """Have a program of a user run, which has printed its first line."""
    process = start_as(user, home, *command, **variables)
    try:
        assert process.stdout.readline() in ("held\n", "ready\n")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Locks

#: Takes the lock that the first argument names, says so, and holds it until its input ends.
HOLD = """
import pathlib, sys
from containercheck import locks
locks.PATIENCE = float(sys.argv[2])
shared = sys.argv[3:] == ["shared"]
with locks.flocked(pathlib.Path(sys.argv[1]), shared=shared, waiting="waiting"):
    print("held", flush=True)
    sys.stdin.read()
"""


def python_as(user, home, code, *arguments, start=run_as, **variables):
    """Run Python with the library as a user; without ReFrame, as on a node."""
    script = home / "script.py"
    script.write_text("import sys, types\npackage = types.ModuleType('containercheck')\n")
    with script.open("a") as stream:
        stream.write(f"package.__path__ = [{str(PACKAGE)!r}]\nsys.modules['containercheck'] = package\n{code}")
    return start(user, home, "/usr/bin/python3", script, *arguments, **variables)


def hold(user, home, lock, *more, patience=60, start=run_as, **variables):
    """Have a user take a lock."""
    return python_as(user, home, HOLD, lock, patience, *more, start=start, **variables)


@pytest.fixture
def everybodys(place):
    """Return a lock in a directory like /var/tmp."""
    directory = place / "var-tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory / "containercheck.lock"


def test_a_lock_that_was_made_under_a_narrow_umask_shuts_nobody_out(alice, bob, everybodys):
    narrow = f"import os; os.umask(0o077)\n{HOLD}"
    assert python_as(ALICE, alice, narrow, everybodys, 60).stdout == "held\n"
    assert stat.S_IMODE(everybodys.stat().st_mode) == 0o666
    assert hold(BOB, bob, everybodys).stdout == "held\n"


def test_a_lock_that_is_closed_to_others_is_named_with_its_owner(alice, bob, everybodys):
    """As an older version of this library made it."""
    everybodys.touch()
    everybodys.chmod(0o400)
    os.chown(everybodys, ALICE, ALICE)
    done = hold(BOB, bob, everybodys)
    assert f"{everybodys} is closed to you: it belongs to user {ALICE}, mode 400: have it removed" in done.stderr


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_what_is_in_the_place_of_a_lock_is_named_at_once(alice, everybodys, kind):
    """A FIFO was waited for without end."""
    make = {"fifo": os.mkfifo, "directory": os.mkdir, "link": lambda path: os.symlink("/etc/passwd", path)}
    make[kind](everybodys)
    os.chown(everybodys, BOB, BOB, follow_symlinks=False)
    done = hold(ALICE, alice, everybodys)
    assert f"{everybodys} is not a regular file, and belongs to user {BOB}: have it removed" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("kind", [[], ["shared"]], ids=["exclusive", "shared"])
def test_whoever_holds_a_lock_for_ever_is_named_and_not_waited_for_without_end(alice, bob, everybodys, kind):
    with running(BOB, bob, *hold_words(bob, everybodys)) as holder:
        done = hold(ALICE, alice, everybodys, *kind, patience=1)
        assert done.stdout == f"waiting (process {holder.pid} of user {BOB})\n"
        told = f"waited 1 s for the lock {everybodys}, held by process {holder.pid} of user {BOB}: have that ended"
        assert told in done.stderr


def test_a_lock_that_is_removed_while_it_is_waited_for_is_none(alice, bob, everybodys):
    """What cleans up /var/tmp does that: whoever comes later locks another file of that name."""
    with running(BOB, bob, *hold_words(bob, everybodys)) as holder:
        waiter = hold(ALICE, alice, everybodys, start=start_as)
        assert waiter.stdout.readline().startswith("waiting")
        everybodys.unlink()
        with running(BOB, bob, *hold_words(bob, everybodys)) as later:
            holder.stdin.close()
            assert waiter.stdout.readline() == f"waiting (process {later.pid} of user {BOB})\n"
            later.stdin.close()
        assert waiter.stdout.readline().startswith("waited")
        assert waiter.stdout.readline() == "held\n"
        waiter.communicate("", timeout=60)


#: Has flock fail as the kernel's does for NFS (an exclusive lock needs a file that is open for writing), or for Lustre
#: that is mounted without flock.
NO_LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
int flock(int descriptor, int operation)
{
    const char *kind = getenv("FILE_SYSTEM");
    int reads = (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY;
    if (!strcmp(kind, "lustre") || (!strcmp(kind, "nfs") && reads && (operation & LOCK_EX))) {
        errno = !strcmp(kind, "nfs") ? EBADF : ENOSYS;
        return -1;
    }
    return ((int (*)(int, int)) dlsym(RTLD_NEXT, "flock"))(descriptor, operation);
}
"""


@pytest.fixture(params=["nfs", "lustre"])
def file_system(request, place):
    """Return the variables of a program that works on such a file system."""
    library = place / "no-locks.so"
    command = ["gcc", "-shared", "-fPIC", "-o", library, "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=NO_LOCKS, text=True, check=True)
    return {"LD_PRELOAD": str(library), "FILE_SYSTEM": request.param}


def test_locks_exclude_each_other_where_the_file_system_has_none(alice, bob, everybodys, file_system):
    words = hold_words(bob, everybodys)
    with running(BOB, bob, *words, **file_system) as holder:
        done = hold(ALICE, alice, everybodys, patience=1, **file_system)
        assert f"process {holder.pid}" in done.stdout
        assert f"held by process {holder.pid}" in done.stderr
        holder.stdin.close()
        holder.wait(60)
    assert hold(ALICE, alice, everybodys, **file_system).stdout.splitlines()[-1] == "held"
    assert [path.name for path in everybodys.parent.iterdir() if path != everybodys] == []


def test_what_a_killed_holder_leaves_is_taken_over(alice, bob, everybodys, file_system):
    """Its own user's: nobody else may remove it from a directory like /var/tmp."""
    with running(BOB, bob, *hold_words(bob, everybodys), **file_system) as holder:
        holder.kill()
        holder.wait()
        assert hold(BOB, bob, everybodys, patience=30, **file_system).stdout.splitlines()[-1] == "held"
    assert [path.name for path in everybodys.parent.iterdir() if path != everybodys] == []


# The virtual cluster

#: A node that no cluster has.
NOBODYS = "node99"
#: Has namespaces of its own, in which its user is root.
OWN = ("unshare", "--user", "--map-root-user", "--mount")
PRETENDS = (*OWN, "sh", "-c", "echo ready; cat")


@pytest.fixture
def namespaces(bob):
    """Skip where the kernel gives ordinary users none."""
    if run_as(BOB, bob, *OWN, "true").returncode != 0:
        pytest.skip("users cannot have namespaces of their own here")


@pytest.mark.usefixtures("namespaces")
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


@pytest.mark.usefixtures("namespaces")
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
