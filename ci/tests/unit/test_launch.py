"""Commands of a side, filled in on the node: for a run, for the container with one change, and to repeat one run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import write_commands
from containercheck.job import contract, launch
from containercheck.job.container_runtimes import by_name
from containercheck.job.explain.causes import (
    AND,
    BIND,
    CPUS,
    DIRECT,
    GPUS,
    LIMIT,
    OPTION,
    PREFIX,
    SET,
    UNPACK,
    UNSET,
    WITHOUT,
    Change,
)
from containercheck.job.launch import Launch, content_of, limited, note
from containercheck.sides.commands import side_commands
from containercheck.sides.sides import Container, HostMpi, Program, Side
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

SITE = Site("here:only", is_here=True, architecture="x86_64", cores=4, gpus=0)
IMAGE = Container(by_name("Apptainer"), "image.sif")
EXEC = "apptainer exec -B/stage:/rfm_workdir --pwd /rfm_workdir"


@pytest.fixture(autouse=True)
def stage(tmp_path, monkeypatch):
    """Work in a stage directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def launched(container=IMAGE, **facts):
    """Write the commands of a container, and return them as the job reads them."""
    side = Side("subject", "generic", Program("cat"), container=container, compared_with="baseline", **facts)
    stored = side_commands(side, SITE, Layout(1, 2, 1), "/stage", observed=True).stored
    with open("commands.json", "w") as file:
        json.dump({"subject": stored}, file)
    return Launch("subject")


def test_what_only_the_node_knows_is_filled_in_and_nothing_is_left_of_slots():
    assert launched().run == f"{EXEC} image.sif cat"
    note("subject", {"start": ["env", "-uFI_PROVIDER"], "options": ["--userns", "-B/my data:/data"]})
    assert Launch("subject").run == f"env -uFI_PROVIDER {EXEC} --userns '-B/my data:/data' image.sif cat"
    assert (
        Launch("subject")
        .script("observe")
        .endswith(" image.sif sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing")
    )
    launched(replace(IMAGE, host_mpi=HostMpi("cat")))
    note("subject", {"mpi-options": ["-B/usr/lib:/host/usr/lib"]})
    assert " -B/usr/lib:/host/usr/lib image.sif sh /rfm_workdir/subject.host-mpi.sh cat" in Launch("subject").run


def test_the_name_of_an_image_may_be_known_only_on_the_node(stage):
    launch = launched(Container(by_name("Podman"), content_of("image.name")))
    (stage / "image.name").write_text("localhost/made:1\n")
    assert launch.run.endswith(" localhost/made:1 cat")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(UNSET, "X"), "image.sif env -u X cat"),
        (Change(SET, "X=a b"), "image.sif env 'X=a b' cat"),
        (Change(SET, f"X=1{AND}Y=2"), "image.sif env X=1 Y=2 cat"),
        (Change(CPUS, "0-3"), "image.sif taskset -c 0-3 cat"),
        (Change(PREFIX, "chrt -o 0"), "image.sif chrt -o 0 cat"),
        (Change(BIND, "/dev/shm"), "-B/dev/shm:/dev/shm image.sif cat"),
        (Change(OPTION, "--security-opt seccomp=unconfined"), "--security-opt seccomp=unconfined image.sif cat"),
        (Change(GPUS), "--nv image.sif cat"),
        (Change(BIND, "/dev/null:/a.sh"), "-B/dev/null:/a.sh image.sif cat"),
        (Change(UNPACK), "image.unpacked.remedy1 cat"),
    ],
)
def test_a_remedy_is_the_container_with_one_change(change, words):
    launched()
    note("subject", {"options": ["--userns"]})
    remedy = Launch("subject").with_remedy("remedy1", change)
    assert remedy.run == Launch("remedy1").run == f"{EXEC} --userns {words}"
    assert "/rfm_workdir/remedy1.observing" in remedy.script("observe")
    # The container itself stays as it was.
    assert Launch("subject").run == f"{EXEC} --userns image.sif cat"


def test_a_remedy_may_leave_out_an_option_or_a_script_around_the_runtime():
    launched(replace(IMAGE, options=("--no-mount", "tmp", "--no-home")))
    assert Launch("subject").run == f"{EXEC} --no-mount tmp --no-home image.sif cat"
    assert Launch("subject").container["options"] == ["--no-mount", "tmp", "--no-home"]
    remedy = Launch("subject").with_remedy("remedy1", Change(WITHOUT, "--no-mount tmp"))
    assert remedy.run == f"{EXEC} --no-home image.sif cat"
    remedy = Launch("subject").with_remedy("remedy2", Change(DIRECT, "/usr/bin/apptainer"))
    direct = f"{EXEC} --no-mount tmp --no-home image.sif cat".replace("apptainer", "/usr/bin/apptainer", 1)
    assert remedy.run == direct
    # A script may be named by its path.
    launched(replace(IMAGE, command="/new/apptainer", options=("--no-mount", "tmp", "--no-home")))
    assert "/new/apptainer exec " in Launch("subject").run
    assert Launch("subject").with_remedy("remedy3", Change(DIRECT, "/usr/bin/apptainer")).run == direct


def test_what_a_side_cannot_carry_out_is_not_tried():
    unpacked = replace(IMAGE, runtime=by_name("Apptainer").in_way("unpacked"))
    with_gpus = replace(IMAGE, gpus=True)
    engine = Container(by_name("Podman"), "image")
    fits = [
        [launched(each).fits(Change(kind)) for kind in (UNPACK, GPUS)] for each in (IMAGE, engine, unpacked, with_gpus)
    ]
    assert fits == [[True, True], [False, True], [False, True], [True, False]]


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("Max stack size", "4194304", "4096"),
        ("Max processes", "77", "77"),
        ("Max open files", "64", "64"),
        ("Max locked memory", "0", "0"),
    ],
)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_limit_is_set_by_the_shell_before_the_program(name, value, printed, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    (tmp_path / "sh").symlink_to(shutil.which(shell))
    words = [*limited(name, value), "sh", "-c", f'grep "{name}" /proc/self/limits; exit 3']
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(words, env=environment, text=True, capture_output=True)
    assert done.returncode == 3, done.stderr
    # The soft limit, in bytes; the hard one stays.
    assert done.stdout.split()[len(name.split())] == value
    assert Change(LIMIT, f"{name}={value}").label == f"the limit of {name[4:]} at {value}"


def test_a_limit_above_the_hard_one_ends_with_an_error():
    words = ["bash", "-c", 'ulimit -n 32; exec "$@"', "bash", *limited("Max open files", "64"), "true"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ulimit" in done.stderr


# The script that repeats one run of a side.

SIDES = [("baseline", "bare"), ("subject", "generic")]
JOB = f"""#!/bin/bash
#SBATCH --nodes=2
trap 'rm -rf -- copy.sif' EXIT
export GREETING='good day'
{contract.RUNS_FOLLOW}
python3 containercheck rounds
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write the script in the stage directory of a job whose options are known, and return a copy that was kept."""
    stage = tmp_path / "stage"
    stage.mkdir()
    monkeypatch.chdir(stage)
    (stage / "rfm_job.sh").write_text(JOB)
    (stage / "input.txt").write_text("the input\n")
    write_commands(stage, baseline='echo "$GREETING"; cat input.txt', subject="{{start}} echo {{options}} image.sif")
    launch.note("subject", {"start": ["env"], "options": ["--userns", "-B/a;b"]})
    launch.write_reproducer(SIDES)
    monkeypatch.chdir(tmp_path)
    return shutil.copy(stage / contract.REPRODUCER, tmp_path)


def reproduce(script, *words):
    done = subprocess.run(["bash", script, *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_side_runs_in_the_stage_directory_with_the_environment_of_the_job(script, tmp_path):
    (tmp_path / "stage" / "copy.sif").write_text("what the job removes")
    assert reproduce(script, "baseline") == (0, "good day\nthe input\n", "")
    assert reproduce(script, "subject") == (0, "--userns -B/a;b image.sif\n", "")
    assert (tmp_path / "stage" / "copy.sif").exists()


def test_its_commands_can_be_read_by_its_owner_only(script, tmp_path, monkeypatch):
    text = (tmp_path / contract.REPRODUCER).read_text()
    assert "\nenv echo --userns '-B/a;b' image.sif\n" in text
    assert "#SBATCH --nodes=2" in text and "containercheck rounds" not in text
    assert (tmp_path / "stage" / contract.REPRODUCER).stat().st_mode & 0o077 == 0
    # Of a duet, a side runs on its half.
    monkeypatch.chdir(tmp_path / "stage")
    assert "\ntaskset -cp 0-1 $$ >/dev/null\nenv echo" in launch.reproducer_text(SIDES, tmp_path, "0-1")


def test_the_sides_are_listed_and_a_missing_stage_directory_is_told(script, tmp_path):
    status, _, said = reproduce(script)
    assert (status, "SIDE is baseline (bare) or subject (generic)" in said) == (2, True)
    shutil.rmtree(tmp_path / "stage")
    status, output, said = reproduce(script, "baseline")
    assert (status, output, said.count("\n")) == (1, "", 2)
    assert said.endswith("it is gone: run the check again with --keep-stage-files\n")


def test_commands_that_are_missing_end_no_job(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path / "stage")
    write_commands(tmp_path / "stage", baseline="true")
    launch.write_reproducer(SIDES)
    assert f"there is no {contract.REPRODUCER}: " in capsys.readouterr().out
