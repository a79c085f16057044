"""An ordinary user converts an image and runs it in Podman without root: ranks of MPI, and nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import REPOSITORY, eventually
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from test_containers_left import ONCE
from test_converted import CONTAINERS, STORAGE, image  # noqa: F401
from users import ALICE, environment_of, home_of, need_root, open_directory, with_ids, words_as

pytestmark = need_root

NODE = REPOSITORY / "checks" / "containercheck" / "job"
#: Directories of the host that a program needs which was compiled here.
OF_THE_HOST = ("/usr", "/lib", "/lib64", "/etc")

#: Names of Podman's own process that holds a user's namespace, and stays: catatonit, or podman itself.
STAYS = {"podman", "catatonit", "pause"}


class User:
    """An ordinary user with a stage directory and a Podman of his own."""

    def __init__(self, place, source):
        self.home = home_of(ALICE, place)
        self.stage = self.home / "stage"
        shutil.copytree(source / "stage", self.stage, symlinks=True)
        # The link leads to where only root can look.
        (self.stage / "image.sif").unlink()
        shutil.copy(source / "image.sif", self.stage)
        settings = STORAGE.format(driver="vfs", place=self.home, run=self.home / "run")
        (self.home / "storage.conf").write_text(settings)
        (self.home / "containers.conf").write_text(CONTAINERS)
        for name in ("run", "locks"):
            (self.home / name).mkdir()
        for path in (self.home, *self.home.rglob("*")):
            os.lchown(path, ALICE, ALICE)
        self.words = with_ids(ALICE, place)

    def facts(self):
        """Return the environment and the directory in which the user works."""
        variables = {
            "CONTAINERS_STORAGE_CONF": str(self.home / "storage.conf"),
            "CONTAINERS_CONF": str(self.home / "containers.conf"),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "CONTAINERCHECK_LOCKS": str(self.home / "locks"),
        }
        return {"env": environment_of(self.home, **variables), "cwd": self.stage, "stdin": subprocess.DEVNULL}

    def run(self, *command):
        """Run a command, which has to succeed, and return what it prints."""
        words = [*self.words, *words_as(ALICE, *command)]
        done = subprocess.run(words, **self.facts(), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def node(self, *words):
        """Run a program of the build step or of the job."""
        return self.run("/usr/bin/python3", NODE, *words)

    def processes(self):
        """Return the names of the user's processes."""
        listed = subprocess.run(["ps", "-u", str(ALICE), "-o", "comm="], capture_output=True, text=True)
        return listed.stdout.split()


@pytest.fixture
def user(image):  # noqa: F811
    """Return an ordinary user, of whom nothing is left afterwards."""
    missing = [tool for tool in ("podman", "runc", "newuidmap", "mpicc", "mpirun") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    with open_directory() as place:
        alice = User(place, image)
        try:
            yield alice
        finally:
            # It ends the process that holds the user's namespace, which Podman leaves (podman-system-migrate(1)).
            with contextlib.suppress(AssertionError):
                alice.run("podman", "system", "migrate")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/libpod_rootless_lock_{ALICE}")


def command_line(alice, program, launcher=""):
    """Convert the image, and return the line of a job that runs a program in it."""
    words = ("--source", "image.sif", "--builder", "apptainer", "--runtime", "podman", "--cache", "cache")
    alice.node("convert", *words, "--link", "image.oci")
    name = (alice.stage / "image.name").read_text().strip()
    subject = {"commands": {}, "container": {"image": name}}
    (alice.stage / contract.COMMANDS).write_text(json.dumps({"subject": subject}))
    alice.node("runtime", "--command=podman", "--ranks=2", "--own-environment", "--stored-image", "subject")
    binds = [(str(alice.stage), contract.WORKDIR), *((path, path) for path in OF_THE_HOST)]
    options = json.loads((alice.stage / contract.launch_file("subject")).read_text())["options"]
    return f"{launcher} {by_name('Podman').command_line(program, name, binds, contract.WORKDIR, options)}"


def test_mpi_runs_in_containers_of_an_ordinary_user(user):
    """Image converted and loaded, ranks that find each other: without the same number of user, PMIx refuses them."""
    subprocess.run(["mpicc", REPOSITORY / "checks/src/ranks/mpi-ranks.c", "-o", user.stage / "mpi-ranks"], check=True)
    script = "./mpi-ranks && id -u && echo $OWN && pwd && ls -d /dev/shm/of-alice && touch made-$OMPI_COMM_WORLD_RANK"
    shared = "touch /dev/shm/of-alice; trap 'rm /dev/shm/of-alice' EXIT"
    line = command_line(user, f"sh -c '{script}'", "mpirun -np 2 --bind-to none")
    output = user.run("sh", "-c", f"{shared}; {line}")
    lines = output.splitlines()
    assert {text for text in lines if text.startswith("rank ")} == {"rank 0 of 2", "rank 1 of 2"}, output
    for expected in (str(ALICE), "a b", contract.WORKDIR, "/dev/shm/of-alice"):
        assert lines.count(expected) == 2, output
    for rank in range(2):
        assert os.stat(user.stage / f"made-{rank}").st_uid == ALICE
    assert user.run("podman", "info", "--format={{.Host.Security.Rootless}}") == "true\n"
    assert user.run("podman", "ps", "--all", "--quiet") == ""
    assert {*user.processes()} <= STAYS


def test_a_job_that_is_cancelled_takes_the_containers_of_an_ordinary_user_along(user):
    """The runner's, as in test_containers_left.py: the command is not what started the processes, conmon is."""
    line = command_line(user, "sh -c 'trap : TERM INT; while :; do sleep 1; done'")
    label = by_name("Podman").label.format(label=f"{contract.RUN}=${contract.RUN}")
    (user.stage / "subject.sh").write_text(line.replace(" run ", f" run {label} ", 1))
    words = ["env", f"PYTHONPATH={REPOSITORY / 'checks'}", "/usr/bin/python3", "-c", ONCE.format(limit=300)]
    process = subprocess.Popen([*user.words, *words_as(ALICE, *words)], **user.facts(), stdout=subprocess.DEVNULL)
    try:
        assert eventually(lambda: "conmon" in user.processes() and "sleep" in user.processes(), 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 128 + signal.SIGTERM
        assert {*user.processes()} <= STAYS
        assert user.run("podman", "ps", "--all", "--quiet") == ""
    finally:
        process.kill()
        process.wait(60)
