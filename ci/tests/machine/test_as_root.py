"""What ci/setup changes on a machine as root: each in namespaces of its own, with a copy of what it changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess

import pytest
from conftest import REPOSITORY, eventually, write_program
from containercheck.job.build.machine import own_codename
from users import need_root

pytestmark = need_root

CI = REPOSITORY / "ci"
#: Has the directory /etc of its own, and what /usr/sbin gets is gone afterwards.
ALONE = """
mount --bind "$PLACE/etc" /etc
mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$PLACE/upper,workdir=$PLACE/work" /usr/sbin
. "$CI/lib.sh"
. "$CI/subids.sh"
"""


@pytest.fixture
def machine(tmp_path):
    """Return a directory with what is changed of the machine."""
    # An overlay's upper directory cannot lie on another overlay; /tmp may.
    for name in ("upper", "work", "bin", "tmp"):
        (tmp_path / name).mkdir()
    # A device 0/0 is, to an overlay, a file that was removed.
    os.mknod(tmp_path / "upper" / "policy-rc.d", stat.S_IFCHR | 0o644, os.makedev(0, 0))
    shutil.copytree("/etc", tmp_path / "etc", symlinks=True, ignore=shutil.ignore_patterns("ssl"))
    return tmp_path


def command(script):
    """Return the command that runs a script of the shell with the functions of ci/."""
    return ["unshare", "--mount", "--propagation", "private", "bash", "-euc", ALONE + script]


def variables(place):
    return {
        **os.environ,
        "PLACE": str(place),
        "CI": str(CI),
        "TMPDIR": f"{place}/tmp",
        "PATH": f"{place}/bin:{os.environ['PATH']}",
    }


def run(place, script):
    return subprocess.run(command(script), env=variables(place), text=True, capture_output=True, timeout=120)


def add_user(place, name, number):
    with (place / "etc" / "passwd").open("a") as stream:
        stream.write(f"{name}:x:{number}:{number}::/:/bin/sh\n")


def ranges(place, kind="uid"):
    """Return what a file gives to whom; a line that is none of these three is an error."""
    found = {}
    for line in (place / "etc" / f"sub{kind}").read_text().splitlines():
        name, first, count = line.split(":")
        found[name] = range(int(first), int(first) + int(count))
    return found


def test_a_user_gets_a_range_after_the_others(machine):
    """Also after a line that lacks its end; a name only looks alike, and a range may be given to a number."""
    for kind in ("uid", "gid"):
        (machine / "etc" / f"sub{kind}").write_text("a-b:100000:65536\n61003:165536:65536")
    add_user(machine, "a.b", 61002)
    add_user(machine, "number", 61003)
    # One of them is not in passwd.
    assert run(machine, "give_range a.b; give_range number; give_range elsewhere").returncode == 0
    for kind in ("uid", "gid"):
        found = ranges(machine, kind)
        assert list(found) == ["a-b", "61003", "a.b", "elsewhere"]
        assert (found["a.b"], found["elsewhere"]) == (range(231072, 296608), range(296608, 362144))


INSTALL = "apt_install no-such-package-of-anybodys; ls /usr/sbin/policy-rc.d >&2 || true"


def policy(place):
    """Return whether there is a policy in the copy; an overlay's file that was removed is a device."""
    file = place / "upper" / "policy-rc.d"
    return file.is_file()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_services_are_started_again_where_the_set_up_is_killed(machine, number):
    shutil.copy(REPOSITORY / "ci/tests/programs/apt-get", machine / "bin")
    setup = subprocess.Popen(
        command(INSTALL), env=variables(machine), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert eventually((machine / "installing").exists)
        assert policy(machine)
        setup.send_signal(number)
        setup.wait(60)
    finally:
        (machine / "go-on").touch()
    assert eventually(lambda: not policy(machine))


def test_the_log_of_the_installation_is_nothing_that_others_could_make_first(machine):
    """It had a number that is easily guessed, and was written as root through whatever lay there."""
    write_program(machine / "bin" / "apt-get", "echo E: no; exit 1")
    precious = machine / "precious"
    precious.write_text("precious")
    script = (
        f"for number in $(seq $(($$ - 50)) $(($$ + 500))); do ln -s {precious} $TMPDIR/apt-install.$number.log; done\n"
    )
    done = run(machine, script + INSTALL)
    assert done.returncode == 1
    assert "could not install no-such-package-of-anybodys (log: " in done.stderr
    assert precious.read_text() == "precious"


#: The commands of ci/ that make a Debian; the words of make_userland are an architecture and a tree.
FRESH_MACHINE = 'FRESH_MACHINE_CACHE="$PLACE/downloads" "$CI/fresh-machine" "$CODENAME" true'
USERLAND = '. "$CI/virtual_cluster/userlands.sh"; declare -A debian_of=([own]="$(dpkg --print-architecture)")\n'
USERLAND += 'make_userland own "$PLACE/tree"'


@pytest.fixture
def unsigned(machine, monkeypatch):
    """Let apt name a mirror that nobody signed, which has a list of packages."""
    codename = own_codename()
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True).stdout.strip()
    packages = machine / "mirror" / "dists" / codename / "main" / f"binary-{architecture}" / "Packages"
    packages.parent.mkdir(parents=True)
    packages.write_text("\n")
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()
    release = f"Codename: {codename}\nComponents: main\nArchitectures: {architecture}\nSHA256:\n"
    release += f" {digest} 1 main/{packages.parent.name}/Packages\n"
    (packages.parents[2] / "Release").write_text(release)
    write_program(machine / "bin" / "apt-get", f"echo 'Debian|Debian|{codename}|file://{machine}/mirror'")
    monkeypatch.setenv("CODENAME", codename)
    return machine


@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="needs debootstrap")
@pytest.mark.parametrize("command", [FRESH_MACHINE, USERLAND], ids=["fresh machine", "userland"])
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", "E: Failed getting release signature file file://"),
        # Without them debootstrap only warns.
        ("mount -t tmpfs tmpfs /usr/share/keyrings\n", "-keyring.gpg, with which packages are checked: install "),
    ],
    ids=["keys", "no keys"],
)
def test_no_debian_is_made_of_packages_that_nobody_signed(unsigned, command, keys, said):
    done = run(unsigned, keys + command)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr
    # It would come next.
    assert "Retrieving Packages" not in done.stdout + done.stderr
