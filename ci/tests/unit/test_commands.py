"""The commands of a side, as text, and what they need in the job."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from conftest import REPOSITORY
from containercheck import Step
from containercheck.job.container_runtimes import by_name
from containercheck.sides import commands
from containercheck.sides.sides import Container, HostMpi, Launcher, Needs, Program, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from reframe.core.exceptions import SkipTestError

SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
LAYOUT = Layout(nodes=2, ranks_per_node=4, threads=1)
OWN = f"python3 {REPOSITORY}/checks/containercheck/job"
HPCC = Program("hpcc", ("-v",), mpi="hpcc")
SRUN = Launcher("srun", Needs(variables={"SLURM_CPU_BIND": "cores"}))
BARE = Side("baseline", "bare", HPCC, SRUN)
IMAGE = Container(by_name("Apptainer"), "image.sif")
GENERIC = Side("subject", "generic", HPCC, SRUN, IMAGE, compared_with="baseline")
INTEGRATED = replace(GENERIC, label="integrated", container=replace(IMAGE, host_mpi=HostMpi("./bin/hpcc")))
EXEC = "exec -B/stage:/rfm_workdir --pwd /rfm_workdir"
ENTER = f"{{{{start}}}} apptainer {EXEC} {{{{options}}}} {{{{changes}}}} {{{{image}}}} {{{{prefix}}}}"


def made(side, site=SITE):
    return commands.side_commands(side, site, LAYOUT, "/stage")


def test_a_job_with_containers_can_put_words_before_the_program_of_bare():
    found = commands.side_commands(BARE, SITE, LAYOUT, "/stage", observed=True)
    assert (found.script, found.stored["commands"]["run"]) == ("srun hpcc -v", "srun {{prefix}} hpcc -v")


def test_the_hosts_mpi_is_loaded_into_a_program_without_mpi_on_both_sides():
    program = Program("cat", mpi="mpichversion", preloads_mpi=True)
    assert made(replace(BARE, program=program)).script == "srun env LD_PRELOAD=./libmpi-of-host.so cat"
    container = replace(IMAGE, host_mpi=HostMpi("mpichversion", family="mpich"))
    found = made(replace(INTEGRATED, program=program, container=container))
    assert found.script.endswith(" env LD_PRELOAD=/rfm_workdir/subject.host-mpi/libmpi-of-host.so cat")
    assert any(" hostmpi plan subject" in command for command in found.needs.prepare)


def ask_loader(tmp_path, program, library="/no/such/library.so"):
    (tmp_path / "look.sh").write_text(commands._MPI_LOOKUP.format(script=commands.contract.IS_SCRIPT, library=library))
    return subprocess.run(["sh", "look.sh", program], cwd=tmp_path, text=True, capture_output=True)


def test_what_stands_in_the_images_library_path_stays_behind_the_hosts_mpi(tmp_path):
    (tmp_path / "enter.sh").write_text(made(INTEGRATED).files["subject.host-mpi.sh"])
    for own, expected in (("/opt/x/lib:/y", ":/opt/x/lib:/y"), ("", ""), (None, "")):
        environment = {"PATH": os.environ["PATH"], **({} if own is None else {"LD_LIBRARY_PATH": own})}
        # Words with blanks, and what a command ends with, go through.
        words = ["sh", "enter.sh", "sh", "-c", 'echo "$LD_LIBRARY_PATH|$1"; exit 7', "sh", "two  words"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, text=True, capture_output=True)
        assert (done.returncode, done.stdout) == (7, f"/rfm_workdir/subject.host-mpi{expected}|two  words\n")


def test_the_loader_is_asked_about_a_program_and_of_a_script_about_the_hosts_mpi_alone(tmp_path):
    binary = ask_loader(tmp_path, "cat").stdout
    assert "script:" not in binary
    assert "libc.so.6 => " in binary
    for first in ("#!/bin/sh", "echo of an ELF"):
        (tmp_path / "script").write_text(f"{first}\ntouch was-run\n")
        (tmp_path / "script").chmod(0o755)
        # Any library will do.
        library = next(line.split()[2] for line in binary.splitlines() if "libc.so.6" in line)
        lines = ask_loader(tmp_path, f"{tmp_path}/script", library).stdout.splitlines()
        assert lines[0] == f"script: {tmp_path}/script"
        assert any("libc.so.6" in line for line in lines[1:])
        assert not (tmp_path / "was-run").exists()
    assert ask_loader(tmp_path, "no-such-program").stdout == "no-such-program: not found\n"


def test_a_side_has_variables_of_its_own():
    found = made(replace(BARE, environment={"UCX_TLS": "rc,sm", "NOTE": "two words"}))
    assert found.script == "export UCX_TLS=rc,sm\n. ./baseline.environ.sh\nsrun hpcc -v"


def test_steps_are_timed_and_only_parallel_ones_are_launched():
    steps = (Step("mesh", "sh -c 'blockMesh && true'"), Step("solve", "simpleFoam -parallel", parallel=True))
    program = Program("simpleFoam", steps=steps, reset=("rm -rf case",), mpi="simpleFoam")
    lines = made(replace(BARE, program=program, environment={"OMP_A": "1"})).script.splitlines()
    assert lines[0] == "set -e"
    assert lines[-7:] == [
        "export OMP_A=1",
        "rm -rf case",
        "phase mesh",
        "sh -c 'blockMesh && true'",
        "phase solve",
        "srun simpleFoam -parallel",
        "phase end",
    ]
    lines = made(replace(GENERIC, program=program)).script.splitlines()
    assert lines[-4:-1:2] == [f"{ENTER} sh -c 'blockMesh && true'", f"srun {ENTER} simpleFoam -parallel"]


def test_a_program_without_mpi_asks_for_no_ranks_and_the_node_learns_the_way_to_run_images():
    container = replace(IMAGE, runtime=by_name("Apptainer").in_way("unpacked"), command="/opt/our runtime/apptainer")
    found = made(replace(GENERIC, program=Program("cat"), launcher=Launcher(), container=container))
    assert found.needs.prepare == (f"{OWN} runtime subject",)
    start = {"way": "unpacked", "ranks": 0, "own_environment": True, "file": "image.sif"}
    assert found.container["command"] == "/opt/our runtime/apptainer"
    assert found.container["start"] == {**start, "copy_to": "", "required_option": ""}
    # The path of the runtime is one word.
    assert found.script == f"{ENTER.replace('apptainer', chr(39) + '/opt/our runtime/apptainer' + chr(39))} cat"


def test_a_network_of_the_containers_own_needs_the_sites_name_and_the_images_mpi():
    """Without the site's network, or with the host's MPI, the case is skipped; the golden job has the commands."""
    overlay = Container(by_name("Podman").in_way("overlay"), "image")
    with pytest.raises(SkipTestError, match="podman.overlay on 2 nodes needs a network .* container_network"):
        made(replace(GENERIC, container=overlay))
    with pytest.raises(SkipTestError, match="only the generic variant"):
        site = replace(SITE, container_network="net0")
        made(replace(INTEGRATED, container=replace(overlay, host_mpi=HostMpi("./bin/hpcc"))), site)
    alone = commands.side_commands(replace(GENERIC, container=overlay), SITE, replace(LAYOUT, nodes=1), "/stage").script
    assert alone.startswith("{{start}} podman run ") and " --network=bridge " in alone


def test_where_a_container_is_an_option_of_the_launcher_a_process_alone_has_one_too():
    """As Pyxis has it (args.c); the golden job has the commands. The start of containers includes the launcher."""
    image = replace(IMAGE, runtime=by_name("Pyxis"), image="image.sqsh", options=("--container-mounts=/data:/data",))
    script = made(replace(GENERIC, launcher=Launcher("startup.py --"), container=image)).script
    assert script.startswith('startup.py -- {{start}} srun --nodes=1 --ntasks=1 --container-image="$PWD"/{{image}} ')
    assert " --container-mounts=/data:/data " in script


def test_an_image_in_memory_is_copied_there_and_removed():
    found = made(replace(GENERIC, container=replace(IMAGE, copied_to="/dev/shm/my own/copy.sif")))
    start = found.container["start"]
    assert (start["file"], start["copy_to"]) == ("image.sif", "/dev/shm/my own/copy.sif")
    assert found.container["image"] == "'/dev/shm/my own/copy.sif'"
    assert found.needs.files == ("/dev/shm/my own",)


def test_gpus_options_and_modules_of_the_runtime_are_taken_along():
    needs = Needs(modules=("apptainer/1.4",), variables={"APPTAINER_TMPDIR": "/scratch"})
    container = replace(IMAGE, gpus="--nv", options=("--cleanenv", "'-B/my data:/data'"), needs=needs)
    found = made(replace(GENERIC, container=container))
    assert " --nv " in found.script
    assert " {{options}} --cleanenv '-B/my data:/data' {{changes}} {{image}} " in found.script
    assert found.needs.modules == ("apptainer/1.4",)
    assert found.needs.variables["APPTAINER_TMPDIR"] == "/scratch"


def test_the_site_names_the_python_of_its_nodes():
    named = replace(SITE, python="/opt/my python/bin/python3")
    (line, *_) = made(GENERIC, named).needs.prepare
    assert line.startswith(f"'/opt/my python/bin/python3' {REPOSITORY}/checks/containercheck/job runtime ")
    (required,) = node_commands.require_python(named)
    assert required.startswith("command -v '/opt/my python/bin/python3' >/dev/null || ")
    # This very Python, where jobs run here and the site names no other.
    assert node_commands.require_python(replace(SITE, is_here=True)) == ()
    assert node_commands.require_python(replace(named, is_here=True)) == (required,)
    assert node_commands.in_job(replace(SITE, is_here=True), "rounds").startswith(f"{sys.executable} ")
    assert node_commands.in_job(replace(named, is_here=True), "rounds").startswith("'/opt/my python/bin/python3' ")


def test_what_a_side_sees_is_asked_through_its_launcher_and_without_a_program_that_measures():
    ranked = replace(INTEGRATED, launcher=replace(SRUN, ranks=LAYOUT.ranks))
    launched = commands.side_commands(ranked, SITE, LAYOUT, "/stage", observed=True).others["observe"]
    assert launched.startswith("srun {{start}} apptainer ")
    found = commands.side_commands(
        replace(INTEGRATED, launcher=Launcher("measure --repeats 5 --")), SITE, LAYOUT, "/stage", observed=True
    )
    assert "measure --repeats 5 -- " in found.script and "measure" not in found.others["observe"]
    assert found.others["observe"].endswith("sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing")
