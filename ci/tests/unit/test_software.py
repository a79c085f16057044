"""The site's own software, by check: in the commands, and in real sessions."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from conftest import entry_of, write_program
from containercheck import Step, software
from containercheck.application.declare import PROGRAM
from containercheck.check import build
from containercheck.job import contract, locks
from containercheck.job.container_runtimes import by_name
from containercheck.sides import commands
from containercheck.sides.sides import Container, HostMpi, Launcher, Needs, Program, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from containercheck.software import Misconfigured, Provision, Unavailable, Wanted, host, images, sources
from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime

HERE = Site("here:only", is_here=True, architecture=platform.machine(), cores=2, gpus=0)
AWAY = replace(HERE, partition="cluster:compute", is_here=False, images={"gromacs": "/old.sif"})
ELSEWHERE = replace(AWAY, architecture="pdp11")
LAYOUT = Layout(nodes=1, ranks_per_node=2, threads=1)


@pytest.mark.parametrize(
    ("executable", "of_site", "kind", "said"),
    [
        ("no-such", False, Unavailable, "no-such is not on the PATH of "),
        ("no-100%s-such", True, ReframeError, "no-100%s-such is not on the PATH of "),
        ("/no/gmx", False, ReframeError, " has no /no/gmx, which was named for it"),
    ],
)
def test_absent_software_ends_the_build_step_after_modules_with_a_reason(tmp_path, executable, of_site, kind, said):
    found = host.provide_program(Wanted("GROMACS", executable, modules=("gromacs",), of_site=of_site), HERE)
    assert not found.activate
    ended = subprocess.run(["bash", "-c", software.build_command(found)], cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / "err").write_text("Lmod says hello\n" + ended.stderr)
    with pytest.raises(kind, match=rf"no software: .*{re.escape(said)}"):
        software.require_built(tmp_path, "err")


def test_a_module_that_is_not_there_ends_the_build_step_with_an_error(tmp_path, monkeypatch):
    said = "echo 'Lmod has detected an error' >&2; false"
    monkeypatch.setattr(runtime().modules_system, "emit_load_commands", lambda name: [f"{{ {said}; }}"])
    wanted = Wanted("GROMACS", "sh", modules=("gromacs",), own_modules=("gromacs",))
    command = software.build_command(software.provide(wanted, HERE))
    ended = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / "err").write_text(ended.stderr)
    with pytest.raises(ReframeError, match="error: no software: no module gromacs$"):
        software.require_built(tmp_path, "err")
    # Where jobs run elsewhere, the nodes may have it.
    command = software.build_command(software.provide(wanted, AWAY))
    assert subprocess.run(["bash", "-ec", command], cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("of_site", "advice"), [(False, ": install it, or name it in"), (True, "; the site's extras, software: GROMACS")]
)
def test_absent_software_ends_the_job_elsewhere(tmp_path, of_site, advice):
    (look,) = host.provide_program(Wanted("GROMACS", "no-such", of_site=of_site), AWAY).activate
    ended = subprocess.run(["bash", "-c", look], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    # The job skips with the reason; an error, where the site names the program, is printed.
    reason = ended.stderr.removeprefix("error: ") if of_site else (tmp_path / "unsupported.txt").read_text()
    assert reason.startswith(f"no software: no-such is not on the PATH of {os.uname().nodename}{advice}")
    assert (tmp_path / "unsupported.txt").exists() is not of_site


@pytest.mark.parametrize(
    ("facts", "kind", "advice"),
    [
        ({"debian": ("lammps",)}, Unavailable, ": install lammps (ci/setup does on Debian and Ubuntu), or name it in"),
        ({}, Unavailable, ": install it, or name it in the site's extras, software: LAMMPS"),
        ({"debian": ("lammps",), "of_site": True}, Misconfigured, "; the site's extras, software: LAMMPS, names it"),
    ],
)
def test_what_to_do_about_absent_software_is_what_the_check_and_the_site_say(facts, kind, advice):
    with pytest.raises(kind) as error:
        host.provide_program(Wanted("LAMMPS", "no-lmp", **facts), HERE)
    assert str(error.value).startswith(f"no software: no-lmp is not on the PATH of this machine{advice}")


def test_a_program_is_looked_for_with_its_own_variables(tmp_path):
    write_program(tmp_path / "gmx_own", "")
    wanted = Wanted("GROMACS", "gmx_own", environ={"PATH": str(tmp_path)})
    assert host.provide_program(wanted, HERE).program == "gmx_own"
    (look,) = host.provide_program(wanted, AWAY).activate
    assert subprocess.run(["bash", "-c", f"{look}; command -v gmx_own"], cwd=tmp_path).returncode == 1
    assert not (tmp_path / "unsupported.txt").exists()


def test_the_image_of_an_application_goes_before_that_of_its_recipe(tmp_path):
    image = tmp_path / "own.sif"
    image.touch()
    wanted = Wanted("GROMACS", "gmx", recipe="gromacs", runtime=by_name("Apptainer"), image=str(image))
    assert entry_of(images.provide_image(wanted, AWAY).build[0])["image"] == str(image)
    with pytest.raises(Misconfigured, match="no image: /no.sif, .* or --image, name for GROMACS, does not exist"):
        images.provide_image(replace(wanted, image="/no.sif"), AWAY)


def test_a_steps_program_is_the_sides_own_and_a_bare_variable_reaches_the_input_too():
    steps = (Step("read", f"{PROGRAM} -i"),)
    image = Container(
        by_name("Apptainer"),
        "image.sif",
        host_mpi=HostMpi("/apps/io", None, {"OMP_A": "b c"}),
        required_program="/own/io",
        software_trees={"/own": "/apps"},
    )
    sides = [
        Side("baseline", "bare", Program("/apps/io", steps=steps), environment={"OMP_A": "b c"}),
        Side("subject", "generic", Program("/own/io", steps=steps), Launcher(), image, compared_with="baseline"),
    ]
    job = commands.job_commands(sides, Needs(), ["make input"], AWAY, LAYOUT, "/stage")
    assert "\nexport OMP_A='b c'\nphase read\n" not in job.runs["subject"]
    assert "\nexport OMP_A='b c'\nphase read\n/apps/io -i\n" in job.runs["baseline"]
    assert " {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} /own/io -i\n" in job.runs["subject"]
    assert job.files["prepare.sh"].endswith("\nexport OMP_A='b c'\nmake input")
    commands_of = json.loads(job.files["commands.json"])["subject"]["commands"]
    assert "sh -c 'command -v /own/io >/dev/null || { " in commands_of["require"]


def search_in_image(program):
    """Return what the job's shell in the container runs, to find a program there."""
    image = Container(by_name("Apptainer"), "image.sif", required_program=program)
    sides = [
        Side("baseline", "bare", Program(program)),
        Side("subject", "generic", Program(program), container=image, compared_with="baseline"),
    ]
    files = commands.job_commands(sides, Needs(), [], AWAY, LAYOUT, "/stage").files
    return shlex.split(json.loads(files["commands.json"])["subject"]["commands"]["require"])[-1]


@pytest.mark.parametrize(
    ("program", "said"), [("no-such", "no-such in /usr/bin:/bin\n"), ("/opt/no-such", "/opt/no-such\n")]
)
def test_a_program_that_the_image_lacks_is_told_with_where_it_was_searched(program, said):
    look = search_in_image(program)
    done = subprocess.run(["sh", "-c", look], env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (1, f"error: no software: the image has no {said}")
    assert subprocess.run(["sh", "-c", search_in_image("ls")]).returncode == 0


# The build step: here, or as a job on a node of the partition


@pytest.mark.parametrize(
    ("site", "on_node"),
    [
        (AWAY, False),
        (ELSEWHERE, True),
        (replace(AWAY, architecture=None), False),
        # The site has the last word.
        (replace(AWAY, build_on_node=True), True),
        (replace(ELSEWHERE, build_on_node=False), False),
        # There is no other machine.
        (replace(ELSEWHERE, is_here=True, build_on_node=True), False),
    ],
)
def test_another_architecture_is_built_on_its_nodes(site, on_node):
    assert site.builds_on_node is on_node
    python = "/opt/python" if on_node else sys.executable
    command = node_commands.in_build(replace(site, python="/opt/python"), "jars", directory=None, link="a b")
    assert command.startswith(f"{python} ")
    assert entry_of(command) == {"kind": "jars", "link": "a b"}


def test_what_only_nodes_have_is_not_looked_for_here(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    wanted = Wanted("SemanticSpaces", "java", artifacts="semanticspaces/jars.txt")
    with pytest.raises(software.Unavailable, match="no mvn is on the PATH"):
        sources.provide_jars(wanted, AWAY)
    assert " jars " in sources.provide_jars(wanted, ELSEWHERE).build[0]


def test_modules_are_not_loaded_where_nothing_is_built(monkeypatch):
    monkeypatch.setattr(software.host, "provide_modules", lambda wanted, site: Provision(build=("load",)))
    plain = Wanted("GROMACS", "gmx_mpi", own_modules=("gromacs",))
    assert software.provide(plain, AWAY).build == ()
    compiled = software.provide(replace(plain, source="pingpong/pingpong.c"), AWAY).build
    assert compiled[0] == "load" and "mpicc" in compiled[-1]


def test_a_build_that_was_ended_is_not_taken_for_done(tmp_path):
    (tmp_path / "err").write_text("error: no space\n")
    with pytest.raises(ReframeError, match="^the build was ended before it was done: killed$"):
        software.require_built(tmp_path, "err", "killed")
    for command, status in (("false", "1"), ("true", "0")):
        step = software.build_command(Provision(build=(command,)))
        assert subprocess.run(["bash", "-ec", step], cwd=tmp_path).returncode == 0
        assert (tmp_path / contract.BUILD_STATUS).read_text() == f"{status}\n"
        if command == "false":
            with pytest.raises(ReframeError, match="^no space$"):
                software.require_built(tmp_path, "err")
    software.require_built(tmp_path, "err")


def test_what_is_in_a_cache_needs_no_job(tmp_path, monkeypatch):
    content = tmp_path / "input.txt"
    content.write_text("input")
    digest = subprocess.run(["sha256sum", content], capture_output=True, text=True).stdout.split()[0]
    site = replace(ELSEWHERE, caches=str(tmp_path / "cache"))
    wanted = Wanted("GROMACS", "gmx_mpi", published=f"{content.as_uri()}#sha256={digest}")
    (command,) = sources.provide_input(wanted, site).build
    assert not build._is_in_caches([command], tmp_path)
    assert not (tmp_path / "cache").exists()
    # A measurement on this machine holds the lock that builds share.
    monkeypatch.setenv(locks.OTHER_DIRECTORY, str(tmp_path))
    assert subprocess.run(command, shell=True, cwd=tmp_path).returncode == 0
    (tmp_path / "published").unlink()
    assert build._is_in_caches([command], tmp_path)
    assert (tmp_path / "published").read_text() == "input"
    # Anything else may do what it likes.
    assert not build._is_in_caches([command, "mpicc"], tmp_path)
