"""Python environments for tests that take no time to make: they have what this one has, and something of their own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

#: Prints what ci/setup writes into an environment that is complete.
WANTED = "repo=$1; . ci/environment.sh; wanted_environment"


def beside_this(directory: Path, *packages: Path) -> Path:
    """Make an environment that has what this one has, but for the checkout itself, and return its directory.

    What this one has it finds by a path file: nothing is installed again. This one's own path file, by which it finds
    the checkout, does not count there.

    :param packages: directories of packages that it has besides.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (site,) = directory.glob("lib/python3*/site-packages")
    (site / "beside.pth").write_text("".join(f"{path}\n" for path in (*packages, sysconfig.get_path("purelib"))))
    copy_program("reframe", directory)
    return directory


def copy_program(name: str, environment: Path) -> None:
    """Copy a program of this environment to another one, with whose Python it then runs."""
    text = Path(sys.executable).with_name(name).read_text()
    path = environment / "bin" / name
    path.write_text(f"#!{environment}/bin/python\n{text.partition(chr(10))[2]}")
    path.chmod(0o755)


def of_copy(repo: Path) -> Path:
    """Make the environment of a copy of the checkout, as ci/setup would: it is complete, and has the copy's library."""
    environment = beside_this(repo / ".venv-copy", repo / "checks")
    copy_program("containercheck", environment)
    wanted = subprocess.run(["bash", "-c", WANTED, "-", repo], cwd=repo, check=True, capture_output=True).stdout
    (environment / "dependencies.sha256").write_bytes(wanted)
    (repo / ".venv").symlink_to(environment.name)
    return environment
