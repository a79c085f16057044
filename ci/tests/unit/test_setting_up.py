"""What ci/setup says that it will do is what it does, and who only asks changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

import environments
import pytest
from conftest import REPOSITORY, write_program

pytestmark = pytest.mark.skipif(
    platform.freedesktop_os_release()["ID"] != "debian", reason="elsewhere nothing is installed, or other things are"
)

#: What the scripts themselves need. No other program is on the PATH.
BASICS = "cat cp cut date dirname env find flock grep head ln mkdir mktemp mv printf python3 readlink rmdir sed sh"
BASICS += " sha256sum sort tail touch tr true"
#: Programs of a machine that has nothing yet, until there is a file "done". What would change it is written to a log.
PROGRAMS = {
    "id": 'case "$*" in -u) cat "$PLACE/uid" ;; -un) echo newuser ;; *) echo 4242 ;; esac',
    "dpkg-query": '[ -e "$PLACE/done" ] && printf installed',
    "apt-cache": 'for name; do :; done; case $name in apptainer | iozone3) ;; *) echo "  Candidate: 1.0" ;; esac',
    "apt-get": """
case " $* " in
    *" -s "*) echo "Inst gcc (4:12)
Inst libneeded (1.0)
Inst libold [1.0] (2.0)
Remv libbad [1.0]" ;;
    *" -c "*) ;;
    *" install "*) log apt-get "$@"; [ -e "$PLACE/bin/python3" ] || ln -s "$PYTHON" "$PLACE/bin/python3" ;;
    *) log apt-get "$@" ;;
esac""",
    "bash": 'if [ "$1" = -euc ]; then log give_range; else exec /bin/bash "$@"; fi',
    "awk": 'case $* in *"found = 1"*) [ -e "$PLACE/done" ] ;; *) exec /usr/bin/awk "$@" ;; esac',
    "stat": '[ -e "$PLACE/done" ] && echo 666 || echo 600',
    "rm": 'case $* in */usr/*) log rm "$@" ;; *) exec /bin/rm "$@" ;; esac',
    "chmod": 'log chmod "$@"',
    "install": 'log install "$@"',
    "usermod": 'log usermod "$@"',
}
LOG = 'log() { echo "$*" >>"$PLACE/log"; }\n'


@pytest.fixture
def place(tmp_path):
    """Return a directory with a fresh clone, whose environment is complete but not in its place, and programs."""
    repo = tmp_path / "repo"
    repo.mkdir()
    shutil.copytree(REPOSITORY / "ci", repo / "ci", ignore=shutil.ignore_patterns("tests", "benchmarks"))
    (repo / "checks").symlink_to(REPOSITORY / "checks")
    shutil.copy(REPOSITORY / "pyproject.toml", repo)
    command = ["bash", "-c", environments.WANTED, "-", repo]
    wanted = subprocess.run(command, cwd=repo, capture_output=True, text=True).stdout
    made = tmp_path / "environments" / f".venv-{wanted[:12]}"
    (made / "bin").mkdir(parents=True)
    (made / "dependencies.sha256").write_text(wanted)
    (made / "bin" / "activate").touch()
    write_program(made / "bin" / "containercheck", 'echo "asked $*"')
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in BASICS.split():
        (programs / name).symlink_to(shutil.which(name))
    (programs / "python3").unlink()
    (programs / "python3").symlink_to("/usr/bin/python3")
    for name, commands in PROGRAMS.items():
        write_program(programs / name, LOG + commands)
    for name in ("iozone-from-non-free", "apptainer-from-unstable"):
        write_program(repo / "ci" / "install" / name, f"{LOG}log {name}")
    (tmp_path / "uid").write_text("0\n")
    return tmp_path


def run(place, script, *words):
    variables = {"PATH": f"{place}/bin", "PLACE": str(place), "CONTAINERCHECK_ENVIRONMENTS": f"{place}/environments"}
    variables.update(HOME=str(place), PYTHON="/usr/bin/python3")
    command = [place / "repo" / "ci" / script, *words]
    return subprocess.run(command, env=variables, cwd=place, capture_output=True, text=True, timeout=60)


def changes(place):
    return (place / "log").read_text().splitlines() if (place / "log").exists() else []


def packages(lines):
    """Return the packages that the lines of a list name, without those that others need."""
    named = [line.partition(": ")[2] for line in lines if line.startswith(("  packages: ", "  packages of app"))]
    return " ".join(named).split()


def test_setup_makes_only_the_environment_on_request(place):
    result = run(place, "setup", "--venv")
    assert (result.returncode, changes(place)) == (0, []), result.stderr
    assert (place / "repo" / ".venv").is_symlink()
    lines = result.stdout.splitlines()
    assert "setup: this takes 1 to 5 minutes" in lines
    assert lines[-1] == "setup: done: . .venv/bin/activate, then containercheck doctor"
    assert run(place, "setup", "--venv").stdout == ""


def test_a_dry_run_lists_what_set_up_then_lists_and_does(place):
    before = sorted(place.rglob("*"))
    dry = run(place, "setup", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert changes(place) == [] and sorted(place.rglob("*")) == before
    lines = dry.stdout.splitlines()
    first, *listed = lines[lines.index("setup: this is missing:") :]
    for some in (
        "iozone3 from Debian's non-free",
        "Apptainer from Debian unstable: /usr/local/lib/apptainer-unstable, /usr/local/bin/apptainer",
        "newuser in /etc/subuid and /etc/subgid",
        f".venv, a link to {place}/environments/.venv-",
        "packages that these need: libneeded",
        "packages that are upgraded for them: libold",
        "packages that are removed for them: libbad",
        *(["mode 666 of /dev/fuse"] if os.path.exists("/dev/fuse") else []),
    ):
        assert some in dry.stdout
    assert {"gcc", "squashfuse", "gromacs", "hpcc"} <= set(packages(listed))
    done = run(place, "setup")
    assert done.returncode == 0, done.stderr
    # The list is the same, and comes before all that is done.
    assert done.stdout.startswith(dry.stdout)
    changed = changes(place)
    installed = [line.partition("--no-install-recommends ")[2] for line in changed if " install " in line]
    assert " ".join(installed).split() == [*packages(listed), "patchelf"]
    rest = [line for line in changed if not line.startswith(("apt-get", "install", "rm"))]
    fuse = ["chmod 666 /dev/fuse"] if os.path.exists("/dev/fuse") else []
    assert rest == ["iozone-from-non-free", "apptainer-from-unstable", "give_range", *fuse]
    assert (place / "repo" / ".venv").is_symlink()


def test_without_python_what_checks_state_is_listed_when_there_is_one(place):
    (place / "bin" / "python3").unlink()
    dry = run(place, "setup", "--dry-run")
    assert "the packages that checks state: they are listed when there is a Python to read them" in dry.stdout
    assert dry.returncode == 0 and "hpcc" not in dry.stdout and changes(place) == []
    done = run(place, "setup")
    assert done.returncode == 0, done.stderr
    _, first, second = done.stdout.split("setup: this is missing:\n")
    assert "hpcc" in packages(second.splitlines()) and "hpcc" not in first
    assert any(" hpcc " in line for line in changes(place))
