"""A srun with the options of Pyxis: it takes them apart as args.c does, and starts real containers.

Slurm's own srun starts the ranks, and Apptainer the containers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from containercheck.job import runtime_start
from containercheck.job.container_runtimes import by_name

PROGRAM = Path(__file__).parent / "programs" / "srun"


def write_srun(directory: Path) -> Path:
    """Write the program, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    options = " ".join(runtime_start.options(by_name("Apptainer"), "apptainer", 2))
    path = directory / "srun"
    path.write_text(PROGRAM.read_text().replace("@srun@", shutil.which("srun")).replace("@options@", options))
    path.chmod(0o755)
    return path
