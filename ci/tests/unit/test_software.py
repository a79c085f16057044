"""The site's own software, by check: in the commands, and in real sessions."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess

import pytest
from containercheck import Step, software
from containercheck.application.declare import PROGRAM
from containercheck.job.container_runtimes import by_name
from containercheck.sides import commands
from containercheck.sides.sides import Container, HostMpi, Launcher, Needs, Program, Side
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from containercheck.software import Misconfigured, Unavailable, Wanted, host, images
from reframe.core.exceptions import EnvironError, ReframeError
from reframe.core.runtime import runtime

HERE = Site("here:only", is_here=True, architecture="x86_64", cores=2, gpus=0)
AWAY = Site("cluster:compute", is_here=False, architecture="x86_64", cores=2, gpus=0, images={"gromacs": "/old.sif"})
LAYOUT = Layout(nodes=1, ranks_per_node=2, threads=1)


@pytest.mark.parametrize(
    ("executable", "of_site", "kind", "said"),
    [
        ("no-such", False, Unavailable, "no-such is not on the PATH of "),
        ("no-100%s-such", False, Unavailable, "no-100%s-such is not on the PATH of "),
        ("no-such", True, ReframeError, "no-such is not on the PATH of "),
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
    ("wanted", "reason"),
    [
        (Wanted("HPCC", "hpcc", own_modules=("hpcc/9.9",)), "no software: no module hpcc/9.9 on "),
        (Wanted("HPCC", "hpcc", runtime_modules=("apptainer/9",)), "no container runtime: no module apptainer/9 on "),
    ],
)
def test_a_module_that_reframe_cannot_ask_about_is_an_error_before_it_asks(monkeypatch, wanted, reason):
    class Modules:
        def conflicted_modules(self, name):
            raise EnvironError("could not execute module operation\nof many lines")

        def emit_load_commands(self, name):
            return []

    monkeypatch.setattr(runtime().system, "_modules_system", Modules())
    with pytest.raises(Misconfigured, match=rf"^{reason}\S+$"):
        software.provide(wanted, AWAY)
    monkeypatch.setattr(runtime(), "get_option", lambda option: False)
    assert software.provide(wanted, AWAY).build == ()


def test_absent_software_ends_the_job_elsewhere(tmp_path):
    (look,) = host.provide_program(Wanted("GROMACS", "no-such"), AWAY).activate
    assert subprocess.run(["bash", "-c", look], cwd=tmp_path).returncode == 1
    said = (tmp_path / "unsupported.txt").read_text()
    assert said.startswith(
        f"no software: no-such is not on the PATH of {os.uname().nodename}: install it, or name it in"
    )


def test_absent_software_that_the_site_names_ends_the_job_with_an_error(tmp_path):
    (look,) = host.provide_program(Wanted("GROMACS", "no-such", of_site=True), AWAY).activate
    ended = subprocess.run(["bash", "-c", look], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, list(tmp_path.iterdir())) == (1, [])
    assert ended.stderr.startswith(
        f"error: no software: no-such is not on the PATH of {os.uname().nodename}; the site's"
    )


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
    (tmp_path / "gmx_own").write_text("#!/bin/sh\n")
    (tmp_path / "gmx_own").chmod(0o755)
    wanted = Wanted("GROMACS", "gmx_own", environ={"PATH": str(tmp_path)})
    assert host.provide_program(wanted, HERE).program == "gmx_own"
    (look,) = host.provide_program(wanted, AWAY).activate
    assert subprocess.run(["bash", "-c", f"{look}; command -v gmx_own"], cwd=tmp_path).returncode == 1
    assert not (tmp_path / "unsupported.txt").exists()
    with pytest.raises(Misconfigured, match="no software: this machine has no /no/gmx, which was named for it"):
        host.provide_program(Wanted("GROMACS", "/no/gmx"), HERE)


def test_the_image_of_an_application_goes_before_that_of_its_recipe(tmp_path):
    image = tmp_path / "own.sif"
    image.touch()
    wanted = Wanted("GROMACS", "gmx", recipe="gromacs", runtime=by_name("Apptainer"), image=str(image))
    assert f" --ready {image} " in images.provide_image(wanted, AWAY).build[0]
    with pytest.raises(
        Misconfigured, match="no image: /no.sif, which the site's extras, or --image, name for GROMACS, does not exist"
    ):
        images.provide_image(
            Wanted("GROMACS", "gmx", recipe="gromacs", runtime=by_name("Apptainer"), image="/no.sif"), AWAY
        )


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
    lines = job.files["prepare.sh"].split("\n")
    assert lines[-2:] == ["export OMP_A='b c'", "make input"]
    (plan,) = [number for number, line in enumerate(lines) if " hostmpi plan " in line]
    assert lines[plan].startswith("(export OMP_A='b c'; python3 ")
    # What may end the job comes after what explains it; with the host's MPI bound, as later, but before it is traced.
    after = [
        "observe subject || true",
        "enter subject require",
        "enter subject preflight >subject.preflight.out 2>&1 || true",
    ]
    after += ["hostmpi verify --tree=/apps:/own subject"]
    assert [line.partition("/containercheck/job ")[2] for line in lines[plan + 1 : -2]] == after
    commands_of = json.loads(job.files["commands.json"])["subject"]["commands"]
    assert "sh -c 'command -v /own/io >/dev/null || { " in commands_of["require"]
    assert " /rfm_workdir/subject.preflight.sh " in commands_of["preflight"]
    # The job's script shows what the sides run, as comments.
    assert [line for line in job.last if line.startswith("# ")][-2:][0].startswith("# bare runs: ")


def search_in_image(program):
    """Return what the job's shell in the container runs, to find a program there."""
    image = Container(by_name("Apptainer"), "image.sif", required_program=program)
    sides = [
        Side("baseline", "bare", Program(program)),
        Side("subject", "generic", Program(program), container=image, compared_with="baseline"),
    ]
    files = commands.job_commands(sides, Needs(), [], AWAY, LAYOUT, "/stage").files
    return shlex.split(json.loads(files["commands.json"])["subject"]["commands"]["require"])[-1]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("home", "program", "said"),
    [
        ("/proc/self", "no-such", "no-such in $PATH. The home is mounted over /proc"),
        ("/proc", "no-such", "no-such in $PATH. The home is mounted over /proc"),
        ("/proc", "/proc/no-such", "/proc/no-such. The home is mounted over /proc"),
        ("/proc", "/opt/no-such", "/opt/no-such\n"),
        ("/", "no-such", "no-such in $PATH\n"),
    ],
)
def test_a_program_that_the_image_lacks_is_told_with_where_it_was_searched(shell, home, program, said):
    """The home of the host, which a runtime mounts, may hide it: /proc stands for that."""
    path = f"/usr/bin:/bin:{home}/bin"
    look = search_in_image(program)
    done = subprocess.run([shell, "-c", look], env={"PATH": path, "HOME": home}, text=True, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: no software: the image has no {said}".replace("$PATH", path))
    assert done.stderr.count("\n") == 1
    assert subprocess.run([shell, "-c", search_in_image("ls")]).returncode == 0
