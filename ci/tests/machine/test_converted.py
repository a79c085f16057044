"""One image file for all runtimes: converted by real tools, and run by those runtimes that are installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from conftest import PROGRAMS, REPOSITORY, entry_command
from containercheck.job import contract, locks, runtime_start
from containercheck.job.container_runtimes import HAND_ON, HAND_ON_SCRIPT, by_name
from docker_engines import docker_itself, podman_as_docker, podman_settings
from users import ALICE, environment_of, home_of, need_root, open_directory, with_ids, words_as

#: Where Debian's busybox-static puts a program that needs no library: all that an image needs.
BUSYBOX = "/bin/busybox"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return the directory of an image file with variables of its own, as the build step leaves it."""
    missing = [tool for tool in ("apptainer", "mksquashfs") if shutil.which(tool) is None]
    if missing or not os.path.exists(BUSYBOX):
        pytest.skip(f"needs {', '.join(missing) or 'busybox-static'}")
    place = tmp_path_factory.mktemp("image")
    root = place / "root"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "opt" / "own" / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin")
    for name in ("sh", "env", "tar", "grep", "ls", "cat", "head", "id", "pwd", "true", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    recipe = place / "own.def"
    lines = ["Bootstrap: localimage", f"From: {root}", "%environment", "    export OWN='a b'"]
    recipe.write_text("\n".join([*lines, "    export PATH=/opt/own/bin:$PATH", ""]))
    command = ["apptainer", "build", "--fakeroot", str(place / "image.sif"), str(recipe)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (place / "stage").mkdir()
    ready = entry_command("ready", image=place / "image.sif", link="image.sif")
    subprocess.run(ready, cwd=place / "stage", check=True)
    return place


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """Give Podman a storage of its own."""
    if shutil.which("podman") is None or shutil.which("runc") is None or os.geteuid() != 0:
        pytest.skip("needs root, podman and runc")
    for name, path in podman_settings(tmp_path, tmp_path / "storage", tmp_path / "run").items():
        monkeypatch.setenv(name, path)
    yield
    subprocess.run(["podman", "rm", "--force", "--all"], capture_output=True)
    subprocess.run(["podman", "rmi", "--force", "--all"], capture_output=True)


def convert(stage, cache, runtime, way="", loads=True):
    """Convert the image for a runtime; return its facts and the output, with the source's record in place again.

    :raises AssertionError: that fails; the message is the error.
    """
    link = f"image.{by_name(runtime).in_way(way).form}"
    record = (stage / "image.json").read_text()
    parts = {"source": "image.sif", "builder": "apptainer", "runtime": by_name(runtime).command, "way": way}
    command = entry_command("convert", **parts, loads=loads, directory=cache, link=link)
    # Such a small image disturbs no measurement, and need not wait for any.
    environment = {**os.environ, locks.OTHER_DIRECTORY: str(cache.parent)}
    done = subprocess.run(command, cwd=stage, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = json.loads((stage / "image.json").read_text())
    (stage / "image.json").write_text(record)
    assert facts["source"]["sha256"] == json.loads(record)["sha256"] != facts["sha256"]
    return facts, done.stdout


def run(runtime, image, stage, program):
    """Run a program as a job would; return what it prints."""
    row = by_name(runtime)
    # A command may be another runtime than its name says.
    answers = runtime_start.identify(row.command)[0]
    options = runtime_start.options(answers, row.command, 1)
    if answers.variables:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(stage)
            options += runtime_start.image_variables(answers, row.command, image, "subject")
    line = row.command_line(program, image, [(str(stage), contract.WORKDIR)], contract.WORKDIR, options)
    done = subprocess.run(["sh", "-c", line], cwd=stage, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = "sh -c 'echo $OWN; echo $PATH; echo $RANK; pwd; id -u; cat; ls /dev/shm >/dev/null && echo written >out'"


def check_output(output, stage):
    own, path, rank, place, user = output.splitlines()
    assert (own, rank, place, user) == ("a b", "7", contract.WORKDIR, str(os.geteuid()))
    assert path.startswith("/opt/own/bin:")
    assert (stage / "out").read_text() == "written\n"
    (stage / "out").unlink()


def test_podman_runs_the_image_that_its_storage_has(image, podman, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "7")
    # A shell trusts it where it leads to the same directory, as below /tmp.
    monkeypatch.delenv("PWD", raising=False)
    facts, _ = convert(image / "stage", tmp_path / "cache", "Podman")
    name = (image / "stage" / "image.name").read_text().strip()
    assert name == facts["path"] == f"localhost/containercheck/image:{facts['source']['sha256'][:12]}"
    check_output(run("Podman", name, image / "stage", PROGRAM), image / "stage")
    left = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True).stdout
    assert left == "" and str(tmp_path) not in subprocess.run(["mount"], capture_output=True, text=True).stdout
    # Nothing is made twice.
    again, output = convert(image / "stage", tmp_path / "cache", "Podman")
    assert again == facts and "converted" not in output


@pytest.mark.parametrize("engine", [podman_as_docker, docker_itself], ids=lambda engine: engine.__name__)
def test_docker_runs_the_image_that_its_storage_has(image, tmp_path, monkeypatch, engine):
    """It hands on no environment by itself: each variable of the rank is named, and the image's stay the image's."""
    monkeypatch.setenv("RANK", "7")
    stage, run_directory = image / "stage", tempfile.mkdtemp(prefix="run", dir="/tmp")
    (tmp_path / "engine").mkdir()
    with engine(tmp_path / "engine", run_directory):
        monkeypatch.setenv("PATH", f"{tmp_path}/engine:{os.environ['PATH']}")
        facts, _ = convert(stage, tmp_path / "cache", "Docker")
        (stage / HAND_ON_SCRIPT).write_text(HAND_ON)
        check_output(run("Docker", facts["path"], stage, PROGRAM), stage)
        left = subprocess.run(["docker", "ps", "--all", "--quiet"], capture_output=True, text=True).stdout
        assert left == ""
        again, output = convert(stage, tmp_path / "cache", "Docker")
        assert again == facts and "converted" not in output
    shutil.rmtree(run_directory, ignore_errors=True)


def test_nothing_of_the_host_gets_into_a_converted_image(image, tmp_path):
    """Apptainer binds the working directory and /var/tmp by itself, below directories that an archive has."""
    with open_directory() as place:
        stage = place / "stage"
        shutil.copytree(image / "stage", stage, symlinks=True)
        (place / "of-the-host").write_text("private")
        convert(stage, tmp_path / "cache", "Apptainer", way="unpacked")
        tree = stage / "image.tree"
        assert (tree / "bin" / "busybox").exists() and not [*tree.rglob("of-the-host")]
        assert [*(tree / "var").rglob("*")] in ([], [tree / "var" / "tmp"])


def test_a_node_loads_the_archive_that_the_build_step_made(image, podman, tmp_path):
    stage = tmp_path / "stage"
    shutil.copytree(image / "stage", stage, symlinks=True)
    facts, _ = convert(stage, tmp_path / "cache", "Podman", loads=False)
    (stage / "image.json").write_text(json.dumps(facts))
    look = [*by_name("Podman").storage.look, facts["path"]]
    assert subprocess.run(look, capture_output=True).returncode != 0
    load = [sys.executable, PROGRAMS, "load", "image.oci", "podman"]
    assert subprocess.run(load, cwd=stage).returncode == 0
    found = subprocess.run(look, capture_output=True, text=True).stdout.strip()
    assert found == facts["id"]
    # What is not the image that was built is none.
    (stage / "image.json").write_text(json.dumps({**facts, "id": "0" * 64}))
    refused = subprocess.run(load, cwd=stage, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.startswith("error: podman does not load localhost/")


def test_apptainer_runs_a_directory_as_it_runs_the_file(image, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "7")
    stage = image / "stage"
    convert(stage, tmp_path / "cache", "Apptainer", way="unpacked")
    assert (stage / "image.tree" / "opt" / "own" / "bin").is_dir()
    for form in ("image.tree", "image.sif"):
        check_output(run("Apptainer", form, stage, PROGRAM), stage)


def test_charliecloud_runs_a_directory(image, tmp_path, monkeypatch):
    if shutil.which("ch-run") is None:
        pytest.skip("needs ch-run (Debian: charliecloud)")
    monkeypatch.setenv("RANK", "7")
    # A shell trusts it where it leads to the same directory, as below /tmp.
    monkeypatch.delenv("PWD", raising=False)
    monkeypatch.setenv("USER", "somebody")
    facts, _ = convert(image / "stage", tmp_path / "cache", "Charliecloud")
    check_output(run("Charliecloud", "image.tree", image / "stage", PROGRAM), image / "stage")
    # Mount points that jobs make do not count as damage; a lost file does.
    (tmp_path / "cache" / "made").mkdir()
    tree = image / "stage" / "image.tree"
    (tree / "opt" / "mount-point").mkdir()
    assert "converted" not in convert(image / "stage", tmp_path / "cache", "Charliecloud")[1]
    (tree / "bin" / "id").unlink()
    assert "converted" in convert(image / "stage", tmp_path / "cache", "Charliecloud")[1]


def test_pyxis_gets_a_file_with_the_variables_where_enroot_looks(image, tmp_path):
    convert(image / "stage", tmp_path / "cache", "Pyxis")
    options = runtime_start.options(by_name("Apptainer"), "apptainer", 0)
    command = ["apptainer", "exec", *options, "image.sqsh", "cat", "/etc/environment"]
    output = subprocess.run(command, cwd=image / "stage", capture_output=True, text=True, check=True).stdout
    assert "OWN=a b" in output.splitlines()


# An ordinary user, in Podman without root: ranks of MPI, and nothing left

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
        self.settings = podman_settings(self.home, self.home / "storage", self.home / "run")
        for name in ("run", "locks"):
            (self.home / name).mkdir()
        for path in (self.home, *self.home.rglob("*")):
            os.lchown(path, ALICE, ALICE)
        self.words = with_ids(ALICE, place)

    def facts(self):
        """Return the environment and the directory in which the user works."""
        variables = {
            **self.settings,
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
        return self.run("/usr/bin/python3", PROGRAMS, *words)

    def processes(self):
        """Return the names of the user's processes."""
        listed = subprocess.run(["ps", "-u", str(ALICE), "-o", "comm="], capture_output=True, text=True)
        return listed.stdout.split()


@pytest.fixture
def user(image):
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
    parts = {"source": "image.sif", "builder": "apptainer", "runtime": "podman", "directory": "cache"}
    alice.node(*entry_command("convert", **parts, link="image.oci")[2:])
    name = (alice.stage / "image.name").read_text().strip()
    start = {"way": "", "ranks": 2, "own_environment": True, "file": "", "copy_to": "", "required_option": ""}
    subject = {"commands": {}, "container": {"image": name, "command": "podman", "start": start}}
    (alice.stage / contract.COMMANDS).write_text(json.dumps({"subject": subject}))
    alice.node("runtime", "subject")
    binds = [(str(alice.stage), contract.WORKDIR), *((path, path) for path in OF_THE_HOST)]
    options = json.loads((alice.stage / contract.launch_file("subject")).read_text())["options"]
    return f"{launcher} {by_name('Podman').command_line(program, name, binds, contract.WORKDIR, options)}"


@need_root
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
