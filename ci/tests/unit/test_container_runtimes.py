"""The table of container runtimes: nothing else in the library names one, and a new one is a row."""

from __future__ import annotations

import ast
import doctest
import os
import re
import shlex
import shutil
import subprocess

import pytest
from application_files import constants_of
from conftest import REPOSITORY, write_program
from containercheck.job import container_runtimes, runtime_start
from containercheck.job.build import image_build, image_files
from containercheck.job.build.cache import UnsupportedError
from containercheck.job.container_runtimes import HAND_ON, HAND_ON_SCRIPT, OCI, RUNTIMES, TREE, by_command, by_name
from reframe.core.containers import ContainerPlatform

#: Runtimes that ReFrame has no commands for.
OURS_ONLY = ("Podman", "Charliecloud", "Pyxis")
HELP = "command/parsers.py"
#: Apptainer and Singularity alone push images to registries of ORAS; the credentials there are Docker's.
REGISTRY = "software/registry.py"
TABLE = "job/container_runtimes.py"
PACKAGE = REPOSITORY / "checks" / "containercheck"
NAMES = re.compile(
    "|".join([*(runtime.name for runtime in RUNTIMES), "podman", "charliecloud", "enroot", "pyxis"]), re.IGNORECASE
)


def texts_of(tree):
    """Yield the texts and names of a program: all but comments and docstrings."""
    yield from map(str, constants_of(tree))
    for node in ast.walk(tree):
        for name in ("id", "attr", "name", "arg"):
            if isinstance(getattr(node, name, None), str):
                yield getattr(node, name)


def test_no_other_file_names_a_runtime():
    # The help of the commands has examples as a person types them.
    files = [path for path in PACKAGE.rglob("*.py") if str(path.relative_to(PACKAGE)) not in (TABLE, HELP, REGISTRY)]
    found = {
        (str(path.relative_to(PACKAGE)), text)
        for path in files
        for text in texts_of(ast.parse(path.read_text()))
        # A thread of a public tracker is a source, not a runtime.
        if NAMES.search(re.sub(r"[\w./-]+#\d+", "", text))
    }
    assert len(files) > 60 and not found


def test_the_table_is_whole():
    assert doctest.testmod(container_runtimes).failed == 0
    assert len({runtime.name for runtime in RUNTIMES}) == len(RUNTIMES)
    assert len({runtime.command for runtime in RUNTIMES}) == len(RUNTIMES)
    # What site files call them is ReFrame's, where ReFrame has them.
    for runtime in RUNTIMES:
        assert by_name(runtime.name) is runtime
        if runtime.name not in OURS_ONLY:
            assert ContainerPlatform.create(runtime.name).name == runtime.name
        assert by_command(f"/opt/bin/{runtime.command}") is runtime
        assert "{source}" in runtime.bind and "{target}" in runtime.bind
        assert (runtime.form == OCI) == (runtime.storage is not None)
        # Where something else starts the container, it is known by what it was given.
        assert bool(runtime.variable) == bool(runtime.label) == runtime.is_engine
        assert not (runtime.builds and runtime.storage)


def test_the_documentation_says_of_each_runtime_what_works():
    """A row for each, and for each of its ways: several nodes, integrated, without root, and what was tried."""
    text = (REPOSITORY / "ci" / "docs" / "images.md").read_text()
    (table,) = re.findall(r"^## What works.*?^(\| runtime .*?)\n\n", text, re.MULTILINE | re.DOTALL)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert {len(row) for row in rows} == {5} and all(all(row) for row in rows)
    named = {name.strip("` ") for row in rows[2:] for name in row[0].split(",")}
    ways = {runtime.in_way(way.name).title for runtime in RUNTIMES for way in runtime.ways}
    assert named == {runtime.name for runtime in RUNTIMES} | {way for way in ways if not way.startswith("singularity")}


def hand_on(place, *words, **variables):
    """Run the script that hands the environment on to an engine, which prints its words; return these."""
    write_program(place / "engine", "printf '%s\\n' \"$@\"")
    (place / HAND_ON_SCRIPT).write_text(HAND_ON)
    command = ["sh", HAND_ON_SCRIPT, "./engine", "run", *words]
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_engine_is_told_each_variable_of_the_rank_by_its_name(tmp_path):
    """By the name alone: the engine reads the value, of several lines too. What the image sets stays the image's."""
    (tmp_path / "variables").write_text("PATH=/image/bin\nHOME=/image=home\n")
    variables = {
        "PMIX_RANK": "3",
        "LINES": "a\nNO_NAME=b",
        "HOME": "/home/of/host",
        "OLDPWD": "/",
        "BASH_FUNC_x%%": "()",
    }
    words = ("--rm", "--env=PWD=/work", "--env-file=variables", "image", "cat", "--env-file=other")
    first, *rest = hand_on(tmp_path, *words, **variables)
    names = {word for word in rest if word not in words}
    assert first == "run" and names == {"--env=PMIX_RANK", "--env=LINES"}
    # Options stand before the image, and the words are the caller's.
    assert rest[-len(words) :] == [*words]
    assert "--env=PATH" in hand_on(tmp_path, "--rm", "image", "cat")


#: Options that jobs and builds type, of Apptainer and Singularity, by command.
TYPED = {
    "exec": ("--bind", "--pwd", "--nv", "--rocm", "--contain", "--no-home", "--userns"),
    "build": ("--fakeroot", "--force"),
}


@pytest.mark.parametrize("command", TYPED)
def test_the_installed_runtime_has_the_options_that_are_typed(command):
    runtime = next((each for each in container_runtimes.on_path() if each.builds), None)
    if runtime is None:
        pytest.skip("no runtime that builds images is on the PATH")
    output = subprocess.run([runtime.command, command, "--help"], capture_output=True, text=True, check=True).stdout
    assert [option for option in TYPED[command] if option not in output] == []
    if command == "exec":
        words = shlex.split(runtime.command_line("true", "i.sif", [("/a", "/b")], "/w", gpus=runtime.gpus))
        options = {word for word in words if word.startswith("--")} | {runtime.contain, runtime.user_namespace}
        assert options <= {*TYPED["exec"]} and words[2].startswith("-B") and "-B, --bind" in output


#: Version, and options of exec and of build, of released Singularity and Apptainer.
RELEASES = [
    line.split("\t")
    for line in (REPOSITORY / "ci" / "tests" / "outputs" / "runtimes.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("version", "of_exec", "of_build"), RELEASES, ids=[release[0] for release in RELEASES])
def test_a_release_runs_images_and_builds_them_or_is_too_old_in_one_line(tmp_path, version, of_exec, of_build):
    assert {*TYPED["exec"]} - {*of_exec.split()} == {*TYPED["build"]} - {*of_build.split()} == set()
    (tmp_path / "own.def").write_text("Bootstrap: scratch\n")
    runtime = tmp_path / "runtime"
    answers = f"--version) echo '{version}' ;; exec*) echo {of_exec} ;; *--help) echo {of_build} ;; *) exit 3"
    write_program(runtime, f"case $* in {answers} ;; esac")
    row = runtime_start.identify(str(runtime))[0]
    assert ("--sharens" in runtime_start.options(row, str(runtime), 2)) == ("--sharens" in of_exec.split())
    assert bool(image_files.compression_options(str(runtime))) == ("--mksquashfs-args" in of_build.split())
    places = {"recipes": tmp_path, "images": tmp_path / "images", "jars": tmp_path / "jars"}
    wanted = {"runtime": str(runtime), "architecture": "x86_64", "release": "bookworm", "family": "openmpi"}
    image = image_build.image_of("own", **places, **wanted)
    if "--build-arg" in of_build.split():
        image.prepare()
        return
    with pytest.raises(UnsupportedError) as caught:
        image.ensure()
    assert str(caught.value) == (
        f"no image: {version} is too old to build own: it has no --build-arg; name a ready image in the site's extras, "
        "images"
    )


def test_a_runtime_has_options_for_gpus_of_both_kinds():
    found = {
        name: [by_name(name).gpu_words(arch) for arch in ("sm_70", "", "gfx90a")] for name in ("Apptainer", "Docker")
    }
    of_amd = "--device=/dev/kfd --device=/dev/dri"
    assert found == {"Apptainer": ["--nv", "--nv", "--rocm"], "Docker": ["--gpus=all", "--gpus=all", of_amd]}


def test_a_way_to_run_images_is_part_of_a_runtime():
    assert container_runtimes.chosen("apptainer") == container_runtimes.chosen("/opt/bin/apptainer") == RUNTIMES[0]
    unpacked = container_runtimes.chosen("/opt/bin/apptainer+unpacked")
    assert (unpacked.form, unpacked.builds, unpacked.title) == (TREE, False, "apptainer+unpacked")
    # Nothing else has any: another runtime's command may have the sign in its name.
    assert container_runtimes.chosen("ch-run+unpacked") is container_runtimes.UNKNOWN
    with pytest.raises(ValueError, match="apptainer has no way flat .* write one of unpacked"):
        container_runtimes.chosen("apptainer+flat")


def test_a_container_has_the_network_of_the_host_or_one_that_is_named():
    podman, overlay = container_runtimes.chosen("podman"), container_runtimes.chosen("podman+overlay")
    assert (overlay.form, overlay.storage, overlay.title) == (OCI, podman.storage, "podman+overlay")
    facts = ("hostname", "image", [], "/work")
    assert " --network=host --pid=host " in podman.command_line(*facts)
    assert " --network='a b' --pid=host " in overlay.command_line(*facts, network="a b")
    # Docker's command line is the same, and may be Podman's.
    docker, other = container_runtimes.chosen("docker"), container_runtimes.chosen("docker+overlay")
    assert docker.launch == podman.launch and other.way == overlay.way


def own_network(place, *words, **variables):
    """Run the script that starts ranks in containers with a network of their own."""
    (place / container_runtimes.OWN_NETWORK_SCRIPT).write_text(container_runtimes.OWN_NETWORK)
    command = ["sh", container_runtimes.OWN_NETWORK_SCRIPT, *words]
    environment = {"PATH": os.environ["PATH"], "PWD": str(place), **variables}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_mpirun_starts_its_daemons_in_the_other_containers_by_files(tmp_path, launcher):
    """The container on node 1 is there first, and finds its command in a file."""
    seen = "$? $OMPI_ALLOW_RUN_AS_ROOT$OMPI_MCA_orte_hnp_uri$SLURM_PROCID"
    agent = "$OMPI_MCA_plm_rsh_agent 10.0.0.2 orted --daemonize --mca 'a b'"
    write_program(tmp_path / "mpirun", f"{agent}; echo agent ended with {seen}")
    meeting = tmp_path / "own-network.7.3"
    meeting.mkdir()
    (meeting / "address.1").write_text("10.0.0.2\n")
    # The host's launcher is Slurm's, or mpirun over ssh: the image's mpirun sees nothing of it.
    facts = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "SLURM_PROCID": "0"}
    if launcher == "mpirun":
        facts = {"PMIX_NAMESPACE": "7", "OMPI_COMM_WORLD_RANK": "0", "OMPI_MCA_orte_hnp_uri": "host's"}
        meeting = meeting.rename(tmp_path / "own-network.7")
    result = own_network(tmp_path, "2", "4", "./mpirun", **facts, OMPI_ALLOW_RUN_AS_ROOT="1")
    if "has no address" in result.stderr:
        pytest.skip("this machine's own name is not in /etc/hosts, where a container's is")
    assert result.stdout == "agent ended with 0 1\n", result.stderr
    assert (meeting / "start.1").read_text() == "orted --mca a b\n"
    assert (meeting / "hosts").read_text().splitlines()[1] == "10.0.0.2 slots=4"
    assert (meeting / "done").exists()


def test_what_is_installed_answers_as_its_row_says():
    for runtime in RUNTIMES:
        assert runtime.version
        if runtime.answer and shutil.which(runtime.command):
            words = [runtime.command, *runtime.version]
            said = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
            assert container_runtimes.recognized("anything", said) is runtime
