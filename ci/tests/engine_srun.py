"""A srun with the options of Pyxis and of CSCS's container engine: it takes them apart, and starts real containers.

Neither is in a distribution. What is theirs here are the options (Pyxis: args.c; CSCS documentation: "Container
Engine"); Slurm's own srun starts the ranks, or Open MPI's mpirun where there is no Slurm, and Apptainer the containers.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from containercheck.job import runtime_start
from containercheck.job.container_runtimes import by_name

PROGRAM = r"""
engine={engine} image= workdir= options=() mounts=()
if [ "$1" = --help ]; then
    {srun} --help
    case $engine in
        Pyxis) echo '      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH' ;;
        ContainerEngine) echo '      --environment=NAME|PATH' ;;
    esac
    exit
fi
environment() {{
    [ -f "$1" ] || {{ echo "srun: error: no environment file $1" >&2; exit 1; }}
    {python} - "$1" <<'EOS'
import sys, tomllib
with open(sys.argv[1], "rb") as stream:
    entries = tomllib.load(stream)
print(entries.pop("image"), entries.pop("workdir"), *entries.pop("mounts"), sep="\n")
sys.exit(f"srun: error: unknown entries {{', '.join(entries)}}" if entries else 0)
EOS
}}
while :; do
    case $engine$1 in
        Pyxis--container-image=/*) [ -z "$image" ] || exit 9; image=${{1#*=}} ;;
        Pyxis--container-mounts=*:*) mounts+=(-B "${{1#*=}}") ;;
        Pyxis--container-workdir=/*) [ -z "$workdir" ] || exit 9; workdir=${{1#*=}} ;;
        ContainerEngine--environment=*)
            entries=$(environment "${{1#*=}}") || exit 1
            {{ read -r image; read -r workdir; while read -r mount; do mounts+=(-B "$mount"); done }} <<<"$entries" ;;
        *--container-* | *--environment*) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
        $engine-*) options+=("$1") ;;
        *) break ;;
    esac
    shift
done
[ -z "$image" ] || set -- apptainer exec {options} "${{mounts[@]}}" --pwd "$workdir" "$image" "$@"
{start}
"""
#: How ranks are started without Slurm: an option of Slurm's that Open MPI has in other words, and no other.
WITHOUT_SLURM = """
copies=1
for option in "${options[@]}"; do
    case $option in --ntasks=*) copies=${option#*=} ;; esac
done
[ "$copies" = 1 ] && exec "$@"
exec mpirun -np "$copies" --oversubscribe "$@"
"""


def write_srun(directory: Path, engine: str, slurm: bool) -> Path:
    """Write the program, and return its path.

    :param engine: name of the runtime whose options it has.
    :param slurm: whether Slurm's own srun starts the ranks.
    """
    directory.mkdir(parents=True, exist_ok=True)
    srun = shutil.which("srun") if slurm else None
    facts = {
        "engine": engine,
        "python": sys.executable,
        "srun": srun or "true",
        "start": f'exec {srun} "${{options[@]}}" "$@"' if srun else WITHOUT_SLURM,
        "options": " ".join(runtime_start.options(by_name("Apptainer"), "apptainer", 2)),
    }
    path = directory / "srun"
    path.write_text(f"#!/bin/bash\n{PROGRAM.format(**facts)}")
    path.chmod(0o755)
    return path
