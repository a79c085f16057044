"""Whether an image is fit for a machine: what a container tells, and what follows from it.

The images are those of public recipes (incidents): each gets the answer that its users had to find out.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import made
import pytest
import yaml
from conftest import REPOSITORY, write_program
from containercheck.command import image as image_command
from containercheck.command import main, run
from containercheck.command.parsers import parser
from containercheck.session import image_facts
from containercheck.session.image_facts import ImageFacts

HOST = {
    "host": {"libc": "glibc 2.36"},
    "processor": {"architecture": "x86_64"},
    "mpi": [{"family": "openmpi", "title": "Open MPI", "library": "libmpi.so.40", "version": "4.1.4"}],
    "pmi": [],
    "fabric": [],
    "gpus": [],
}
HERE = {**HOST, "runtimes": [{"mounts": "kernel", "problem": "", "path": "apptainer"}]}
PROGRAMS = {"gmx_mpi": "GROMACS", "pw.x": "QuantumEspresso"}


def image(text, **facts):
    return ImageFacts("my.sif", "x86_64", 1 << 20, **{**image_facts.parse(text, PROGRAMS), "start": 0.1, **facts})


def found(text, host=HOST, **facts):
    """Return the findings by topic: state, and text with its remedy."""
    found = image_command.findings(image(text, **facts), host)
    return {finding.topic: (finding.state, f"{finding.text} -> {finding.remedy}") for finding in found}


FABRIC = {**HOST, "fabric": ["mlx5_0: InfiniBand"], "gpus": ["NVIDIA H100"]}
OPEN_MPI = "library /usr/lib/libmpi.so.40"
VERBS = "library /usr/lib/libibverbs.so.1\nlibrary /usr/lib/libibverbs.so.1.14"


@pytest.mark.parametrize(
    ("text", "host", "topic", "state", "said"),
    [
        # MPICH 5 in /opt, as a centre's recipes have it; the host has Open MPI.
        ("library /opt/mpich/lib/libmpi.so.12", HOST, "integrated", "note", "not possible: the host has Open MPI"),
        # Open MPI 4.0 on Ubuntu 20.04, whose C library is older than the host's; Alpine has no GNU C library.
        (f"libc glibc 2.31\n{OPEN_MPI}", HOST, "integrated", "note", "hardly possible: the host's MPI is built"),
        (f"libc \nlibc musl\n{OPEN_MPI}", HOST, "integrated", "note", "hardly possible"),
        # Open MPI 3.1 has the ABI of all later ones.
        (f"libc glibc 2.36\n{OPEN_MPI}", HOST, "integrated", "ok", "possible: libmpi.so.40 of the host"),
        ("library /lib/libmpi.so.20\nlibrary /lib/libmpi.so.20.1", HOST, "MPI", "note", "none: libmpi.so.20 is of no"),
        ("libc glibc 2.36\nsystem Debian", HOST, "MPI", "note", ""),
        ("libc glibc 2.36\nsystem Debian", HOST, "integrated", None, ""),
        ("libc glibc 2.36\nsystem Debian", HOST, "system", "ok", "Debian, glibc 2.36 -> "),
        (OPEN_MPI, {**HOST, "pmi": ["none", "pmix"]}, "launcher", "ok", ""),
        (OPEN_MPI, {**HOST, "pmi": ["none", "pmix_v4"]}, "launcher", "ok", ""),
        (OPEN_MPI, {**HOST, "pmi": ["none", "pmi2"]}, "launcher", "PROBLEM", ""),
        (OPEN_MPI, HOST, "launcher", None, ""),
        (VERBS, FABRIC, "fabric", "ok", "libibverbs.so.1 -> "),
        (VERBS, FABRIC, "GPU", "note", ""),
        (OPEN_MPI, FABRIC, "fabric", "note", ""),
        ("program gmx_mpi", HOST, "checks", "ok", "GROMACS (gmx_mpi) -> "),
    ],
)
def test_what_an_image_has_is_compared_with_what_the_machine_has(text, host, topic, state, said):
    findings = found(text, host)
    assert findings.get(topic, (None, ""))[0] == state
    assert findings.get(topic, (None, ""))[1].startswith(said)


def test_an_image_of_another_architecture_is_not_fit():
    findings = image_command.findings(replace(image("libc glibc 2.36"), architecture="aarch64"), HOST)
    assert not image_command.is_fit(findings)
    assert findings[0].text == "aarch64, and this machine is x86_64"


def test_variables_that_hurt_are_named_and_others_are_not():
    findings = image_command.findings(
        image("variable OPENBLAS_CORETYPE=Prescott\nvariable PATH=/bin\nvariable OMP_NUM_THREADS=1"), HOST
    )
    texts = [finding.text for finding in findings if finding.topic == "environment"]
    assert texts == ["it sets OMP_NUM_THREADS=1", "it sets OPENBLAS_CORETYPE=Prescott"]


def test_programs_of_checks_are_found_by_name():
    programs = image_facts.programs_of_checks()
    assert programs["gmx_mpi"] == "GROMACS"
    assert programs["pw.x"] == "QuantumEspresso"
    assert not {"cat", "python", "java"} & programs.keys()


def test_a_slow_start_is_worth_a_word():
    assert found("libc glibc 2.36", start=0.2)["start"][0] == "ok"
    state, text = found("libc glibc 2.36", start=20.0)["start"]
    assert state == "note"
    assert "starts and ends in 20 s" in text


def test_an_image_that_is_not_there_is_said_in_a_line(tmp_path):
    with pytest.raises(image_facts.CommandError, match="there is no image"):
        image_facts.read(str(tmp_path / "none.sif"), "apptainer")


def test_a_container_that_does_not_start_says_why(tmp_path):
    (tmp_path / "my.sif").write_text("no image")
    command = tmp_path / "apptainer"
    write_program(command, "printf '\\033[31mFATAL:   could not open image\\n\\033[0m\\n' >&2; exit 255")
    with pytest.raises(image_facts.ImageError, match=r"starts: FATAL: +could not open image$"):
        image_facts.read(str(tmp_path / "my.sif"), str(command))


#: Has a terminal change its title, and turns the direction of writing.
ESCAPES = "\x1b]0;owned\x07\u202e"


def test_nothing_of_an_image_moves_the_cursor(tmp_path, monkeypatch, capsys):
    """Whatever it has for the name of its system, its variables, its versions or as an error."""
    lines = ["libc glibc 2.36", "system Debian", "variable OMP_PLACES=1", "library /lib/libmpi.so.40", "version 4"]
    facts = image("\n".join(f"{line}{ESCAPES}" for line in lines))
    monkeypatch.setattr(image_command.inventory, "inventory", lambda: HERE)
    monkeypatch.setattr(image_facts, "read", lambda name, command: facts)
    main.run("image", ["my.sif"], None)
    monkeypatch.undo()
    monkeypatch.setattr(image_command.inventory, "inventory", lambda: HERE)
    (tmp_path / "my.sif").write_text("no image")
    write_program(tmp_path / "apptainer", f"printf '%s' 'FATAL: {ESCAPES}' >&2; exit 255")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main.run("image", [str(tmp_path / "my.sif")], None) == 1
    printed = "".join(capsys.readouterr())
    assert "OMP_PLACES" in printed and "FATAL: \\x1b" in printed
    assert all(line.isprintable() for line in printed.splitlines())


# The command


@pytest.fixture
def here(monkeypatch):
    """Let the command see an image and a machine of ours."""
    monkeypatch.setattr(image_command.inventory, "inventory", lambda: HERE)
    facts = image("libc glibc 2.36\nprogram gmx_mpi")
    monkeypatch.setattr(image_facts, "read", lambda name, command: facts)
    return facts


def test_findings_are_lines_and_the_last_one_is_the_verdict(here, capsys):
    assert main.run("image", ["my.sif"], None) == 0
    first, *_, verdict, following = capsys.readouterr().out.splitlines()
    assert (first.split(), verdict) == (["ok", "architecture", "x86_64"], "fit for this machine")
    assert following.startswith("next: ")


def test_the_exit_status_of_an_image_is_that_of_all_commands(here, monkeypatch, tmp_path, capsys):
    assert "1    it is not fit: " in parser("image").format_help()
    monkeypatch.setattr(image_facts, "read", lambda name, command: ImageFacts("my.sif", "aarch64"))
    assert main.run("image", ["my.sif"], None) == 1
    monkeypatch.undo()
    monkeypatch.setattr(image_command.inventory, "inventory", lambda: {**HOST, "runtimes": []})
    assert main.run("image", ["my.sif"], None) == 2
    assert "no runtime that runs image files" in capsys.readouterr().err


def test_an_application_is_run_by_its_name_or_by_that_of_its_program(here, monkeypatch, capsys):
    asked = []

    def session(words, place, conclude):
        asked.append(words)
        conclude(
            [SimpleNamespace(variant="generic", result="skip", skip_reason="no MPI", label="GROMACS", nodes=1)], []
        )
        return 0

    monkeypatch.setattr(run, "session", session)
    place = image_command.Workplace()
    assert main.run("image", ["my.sif"], place) == 0
    assert "next: " in capsys.readouterr().out
    assert main.run("image", ["my.sif", "--run"], place) == 0
    assert main.run("image", ["my.sif", "-n", "HPCC"], place) == 0
    assert asked == [["--image", "my.sif", "-n", "^GROMACS%"], ["--image", "my.sif", "-n", "HPCC"]]
    assert "note  GROMACS generic  not run: no MPI" in capsys.readouterr().out


def test_a_session_with_an_image_names_a_check_and_an_image_that_is_there(tmp_path, capsys):
    def refused(*words):
        with pytest.raises(SystemExit):
            run.asked(words)
        return capsys.readouterr().err

    assert "say which check runs it, -n NAME" in refused("--image", "my.sif")
    assert "there is no image my.sif: give the path" in refused("--image", "my.sif", "-n", "HPCC")
    (tmp_path / "my.sif").write_text("")
    settings = run.asked(["--image", str(tmp_path / "my.sif"), "-n", "HPCC"])
    assert settings.arguments == ("-S", f"ready_image={tmp_path}/my.sif", "-n", "HPCC")
    address = "docker://code@sha256:0"
    assert run.asked(["--image", address, "--name=HPCC"]).arguments[:2] == ("-S", f"ready_image={address}")


# Pipelines of images


def test_the_action_and_the_template_call_the_same_script():
    action = yaml.safe_load((REPOSITORY / ".github/actions/image/action.yml").read_text())
    (step,) = action["runs"]["steps"]
    script = REPOSITORY / "ci/templates/image-summary"
    assert step["run"] == f'"$GITHUB_ACTION_PATH/../../../{script.relative_to(REPOSITORY)}"'
    template = yaml.safe_load((REPOSITORY / "ci/templates/image.gitlab-ci.yml").read_text())
    assert template[".containercheck-image"]["script"][-1] == f"containercheck/{script.relative_to(REPOSITORY)}"
    assert script.stat().st_mode & 0o111


@pytest.mark.parametrize(("status", "github"), [(0, True), (1, True), (2, False)])
def test_the_script_hands_on_the_status_and_writes_the_summary(status, github, tmp_path):
    (tmp_path / "ci/templates").mkdir(parents=True)
    script = tmp_path / "ci/templates/image-summary"
    shutil.copy(REPOSITORY / "ci/templates/image-summary", script)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    write_program(tmp_path / "ci/setup", "echo set up")
    write_program(tmp_path / ".venv/bin/containercheck", f'echo "# $*"; exit {status}')
    variables = {"PATH": "/usr/bin:/bin", "IMAGE": "a b.sif", "RUN": "true", "CHECK": "HPCC"}
    if github:
        variables.update(GITHUB_STEP_SUMMARY=str(tmp_path / "summary"), GITHUB_OUTPUT=str(tmp_path / "out"))
    done = subprocess.run([script], env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    written = (tmp_path / ("summary" if github else "image.md")).read_text()
    assert written == "    # image a b.sif --run --name HPCC\n"
    if github:
        assert (tmp_path / "out").read_text() == f"status={status}\n"


def test_a_check_that_fails_with_the_image_says_why_and_what_to_do():
    """The last lines of ``containercheck image my.sif --run``."""
    rows = [made.row("rate", overhead=95, verdict="fail")]
    (finding,) = map(image_command._of_case, made.cases([made.case(rows=rows, result="fail", causes=[made.cause()])]))
    assert finding.state == image_command.PROBLEM
    assert finding.remedy.endswith("X=1 is set; to try: unset it")
