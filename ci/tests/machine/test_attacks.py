"""What one user of a machine cannot do to another: each attack is made for real, as two ordinary users."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import CLUSTER, PROGRAMS, REPOSITORY, entry_command
from users import ALICE, BOB, home_of, need_root, open_directory, run_as, start_as

pytestmark = need_root

#: Words before a Python that has the library, and no ReFrame.
WITH_LIBRARY = ("env", f"PYTHONPATH={REPOSITORY / 'checks'}")


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


def hold_words(home, lock, before=""):
    """Return the command that holds a lock, for :func:`running`."""
    hold(os.stat(home).st_uid, home, lock, before=before, start=lambda user, home, *command, **variables: None)
    return [*WITH_LIBRARY, "/usr/bin/python3", home / "script.py", lock, 60]


@contextlib.contextmanager
def running(user, home, *command, **variables):
    """Have a program of a user run, which has printed its first line."""
    process = start_as(user, home, *command, **variables)
    try:
        line = process.stdout.readline()
        assert line in ("held\n", "ready\n"), line + process.stdout.read()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Locks

#: Takes the lock that the first argument names, says so, and holds it until its input ends.
HOLD = """
import pathlib, sys
from containercheck.job import locks
locks.PATIENCE = float(sys.argv[2])
with locks.flocked(pathlib.Path(sys.argv[1]), shared=False, waiting="waiting"):
    print("held", flush=True)
    sys.stdin.read()
"""


def python_as(user, home, code, *arguments, start=run_as, **variables):
    """Run Python with the library as a user; without ReFrame, as on a node."""
    script = home / "script.py"
    script.write_text(code)
    return start(user, home, *WITH_LIBRARY, "/usr/bin/python3", script, *arguments, **variables)


def hold(user, home, lock, patience=60, start=run_as, before=""):
    """Have a user take a lock."""
    return python_as(user, home, before + HOLD, lock, patience, start=start)


@pytest.fixture
def everybodys(place):
    """Return a lock in a directory like /var/tmp."""
    directory = place / "var-tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory / "containercheck.lock"


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path), lambda path: path.touch(mode=0o400)],
    ids=["fifo", "directory", "link", "closed"],
)
def test_what_is_in_the_place_of_a_lock_is_named_at_once(alice, everybodys, make):
    """A FIFO was waited for without end."""
    make(everybodys)
    os.chown(everybodys, BOB, BOB, follow_symlinks=False)
    done = hold(ALICE, alice, everybodys)
    reason = f"{everybodys} is not a regular file that you may open; it belongs to user {BOB}: have it removed"
    assert reason in done.stderr
    assert done.stdout == ""


#: Has flock fail as for NFS: an exclusive lock needs a file that is open for writing.
OVER_NFS = """
import errno, fcntl, os
def flock(descriptor, operation, real=fcntl.flock):
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY and operation & fcntl.LOCK_EX:
        raise OSError(errno.EBADF, "no locks")
    return real(descriptor, operation)
fcntl.flock = flock
"""


def test_over_nfs_a_holder_excludes_others(alice, bob, everybodys):
    with running(BOB, bob, *hold_words(bob, everybodys, OVER_NFS)) as holder:
        done = hold(ALICE, alice, everybodys, patience=1, before=OVER_NFS)
        assert f"held by process {holder.pid} of user {BOB}: have that ended" in done.stderr


# Caches

SOURCE = "int main() { return 0; }\n"


@pytest.fixture
def source(place):
    """Return a program's source that everybody can read."""
    file = place / "source" / "tiny.cpp"
    file.parent.mkdir()
    file.write_text(SOURCE)
    return file


@pytest.fixture
def shared(place):
    """Return a cache into which everybody may put files, as into /tmp."""
    cache = place / "cache"
    cache.mkdir()
    cache.chmod(0o1777)
    return cache


def compile_as(user, home, source, cache, *first):
    """Have a user compile a program into a cache, and return the path that is printed, and what was said before."""
    parts = {"name": "tiny", "source": source, "compiler": "g++", "architecture": os.uname().machine}
    parts = {**parts, "family": "openmpi", "directory": cache, "link": home / "link"}
    done = run_as(user, home, "/usr/bin/python3", PROGRAMS, *first, *entry_command("compile", **parts)[2:])
    assert done.returncode == 0, done.stderr
    *said, path = done.stdout.splitlines()
    return Path(path), "\n".join(said)


def own_cache(home):
    """Return a user's own cache of programs."""
    return home / ".cache" / "containercheck" / "programs"


def test_a_forged_thing_with_its_record_is_not_taken(alice, bob, source, shared):
    """In the cache of two users each has their own."""
    made, _ = compile_as(BOB, bob, source, shared)
    assert made.parent == shared
    forged = b"#!/bin/sh\ntouch mine\n"
    made.write_bytes(forged)
    record = made.with_name(made.name + ".json")
    known = {**json.loads(record.read_text()), "bytes": len(forged), "sha256": hashlib.sha256(forged).hexdigest()}
    record.write_text(json.dumps(known))
    taken, said = compile_as(ALICE, alice, source, shared)
    assert taken.parent == own_cache(alice)
    reason = f"{made} belongs to user {BOB}, and is not the entry that is needed"
    assert f"tiny: {reason}: it goes to {own_cache(alice)}" in said
    assert (alice / "link").read_bytes() != forged
    assert compile_as(ALICE, alice, source, shared) == (taken, "")


@pytest.mark.parametrize("mode", [0o775, 0o666])
def test_what_others_can_write_is_not_taken(alice, source, place, mode):
    """The cache, which its group can write, or the thing in it, which all can write."""
    cache = place / "project"
    cache.mkdir()
    os.chown(cache, ALICE, 0)
    made, _ = compile_as(ALICE, alice, source, cache)
    os.chown(made, ALICE, 0)
    (cache if mode & 0o100 else made).chmod(mode)
    taken, said = compile_as(ALICE, alice, source, cache)
    if mode & 0o100:
        assert (taken.parent, "can be written by" in said) == (own_cache(alice), True)
    else:
        assert (taken.parent, "compiling it again" in said) == (cache, True)
        assert stat.S_IMODE(made.stat().st_mode) == 0o755


def test_a_site_fills_a_cache_for_all_under_an_account_of_its_own(alice, bob, source, place):
    """The extra ``cache_owners`` names it; whatever it lacks goes to the user's own."""
    cache = place / "site"
    cache.mkdir()
    os.chown(cache, BOB, BOB)
    made, _ = compile_as(BOB, bob, source, cache)
    for owners in (str(BOB), f"nobody-of-this-name,{BOB}"):
        assert compile_as(ALICE, alice, source, cache, f"--cache-owners={owners}") == (made, "")
    for owners in ((), ("--cache-owners=@61002",)):
        assert compile_as(ALICE, alice, source, cache, *owners)[0].parent == own_cache(alice)
    source.write_text(SOURCE + "\n")
    taken, said = compile_as(ALICE, alice, source, cache, f"--cache-owners={BOB}")
    assert f"the cache of programs {cache} cannot be used: [Errno 13] Permission denied" in said
    assert taken.parent == own_cache(alice)


def test_what_somebody_leaves_in_a_shared_cache_is_in_nobodys_way(alice, bob, source, shared):
    """A log that leads to another's own file, a directory of a killed build, a FIFO for a lock."""
    precious = alice / "precious"
    precious.write_text("precious")
    os.chown(precious, ALICE, ALICE)
    host = os.uname().nodename
    for name in ("tiny.log", f"tiny-{ALICE}-{host}.log"):
        (shared / name).symlink_to(precious)
        os.lchown(shared / name, BOB, BOB)
    stale = shared / ".tiny-building-1"
    stale.mkdir(mode=0o700)
    os.chown(stale, BOB, BOB)
    made, _ = compile_as(ALICE, alice, source, shared)
    assert made.parent == shared
    assert precious.read_text() == "precious"
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    source.write_text(SOURCE + "\n")
    (shared / "tiny.lock").unlink()
    os.mkfifo(shared / "tiny.lock")
    os.chown(shared / "tiny.lock", BOB, BOB)
    made, said = compile_as(ALICE, alice, source, shared)
    reason = f"tiny.lock is not a regular file that you may open; it belongs to user {BOB}: have it removed"
    assert f"{reason}: it goes to" in said
    assert made.parent == own_cache(alice)


# Jobs


def place_as(user, home, directory):
    """Have a user's job make a directory of its own."""
    return run_as(user, home, "setsid", "--wait", "/usr/bin/python3", PROGRAMS, "place", directory)


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_directory_of_a_job_that_somebody_else_made_is_refused(alice, bob, place, kind):
    memory = place / "memory"
    memory.mkdir()
    memory.chmod(0o1777)
    directory = memory / f"containercheck-{ALICE}-{16 * '0'}"
    if kind == "directory":
        directory.mkdir(mode=0o777)
    else:
        directory.symlink_to(bob)
    os.lchown(directory, BOB, BOB)
    done = place_as(ALICE, alice, directory)
    assert done.stderr == (
        f"error: {directory} is there already, and belongs to user {BOB}: it was not made by this job\n"
    )


# The virtual cluster
#: Has namespaces of its own, in which its user is root.
OWN = ("unshare", "--user", "--map-root-user", "--mount")
PRETENDS = (*OWN, "sh", "-c", "echo ready; cat")


@pytest.fixture
def namespaces(bob):
    """Skip where the kernel gives ordinary users none."""
    if run_as(BOB, bob, *OWN, "true").returncode != 0:
        pytest.skip("users cannot have namespaces of their own here")


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
