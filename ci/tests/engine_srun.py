"""A srun with the options of Pyxis: it takes them apart as args.c does, and starts real containers.

Slurm's own srun starts the ranks, and Apptainer the containers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from containercheck.job import runtime_start
from containercheck.job.container_runtimes import by_name

PROGRAM = r"""
image= workdir= options=() mounts=()
if [ "$1" = --help ]; then
    {srun} --help
    echo '      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH'
    exit
fi
while :; do
    case $1 in
        --container-image=/*) [ -z "$image" ] || exit 9; image=${{1#*=}} ;;
        --container-mounts=*:*) mounts+=(-B "${{1#*=}}") ;;
        --container-workdir=/*) [ -z "$workdir" ] || exit 9; workdir=${{1#*=}} ;;
        --container-*) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
        -*) options+=("$1") ;;
        *) break ;;
    esac
    shift
done
[ -z "$image" ] || set -- apptainer exec {options} "${{mounts[@]}}" --pwd "$workdir" "$image" "$@"
exec {srun} "${{options[@]}}" "$@"
"""


def write_srun(directory: Path) -> Path:
    """Write the program, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    options = " ".join(runtime_start.options(by_name("Apptainer"), "apptainer", 2))
    path = directory / "srun"
    path.write_text(f"#!/bin/bash\n{PROGRAM.format(srun=shutil.which('srun'), options=options)}")
    path.chmod(0o755)
    return path
