"""Write ``reproduce.sh``, which repeats a single run of a side outside the job (standard library only, Python 3.6).

    bash reproduce.sh                    lists the sides
    bash reproduce.sh subject            runs a side, in the job's stage directory

It has the environment of the job's script, and each side's script as the job ran it. Image and input stay where the job
had them: ReFrame removes the stage directory after a pass, unless it has the option ``--keep-stage-files``. Only its
owner may read it, as the job's script: the site's file may set secrets.
"""

import os
import shlex
from pathlib import Path
from typing import Sequence, Tuple

from containercheck.job import contract, variables
from containercheck.job.launch import Launch

TEXT = """{head}
# Repeats one run of a side, as the job in {stage} had it on {node}; on a cluster, in an allocation like its own:
#   bash {name} SIDE     SIDE is {sides}
cd {stage} || {{
    echo "{name}: image and input lay there, and it is gone: run the check again with --keep-stage-files" >&2
    exit 1
}}
case ${{1:-}} in
{runs}
*)
    echo "usage: bash {name} SIDE: SIDE is {sides}" >&2
    exit 2
    ;;
esac
"""


def write(sides: Sequence[Tuple[str, str]], processors: str = "") -> None:
    """Write the script into the stage directory, the current one; if that fails, print a line, and the rounds go on.

    :param sides: name and label of each.
    :param processors: those of a side's half of the node, as Linux lists them; empty for all.
    """
    try:
        variables.write_private(Path(contract.REPRODUCER), text_of(sides, Path.cwd(), processors))
    except (OSError, ValueError, KeyError) as error:
        print(f"there is no {contract.REPRODUCER}: {error}", flush=True)


def text_of(sides: Sequence[Tuple[str, str]], stage: Path, processors: str = "") -> str:
    """Return the script.

    :param processors: see :func:`write`.
    """
    confined = [f"taskset -cp {processors} $$ >/dev/null"] if processors else []
    runs = ["\n".join([f"{name})", *confined, Launch(name).run, ";;"]) for name, _ in sides]
    return TEXT.format(
        head=environment_of(Path(contract.JOB).read_text()),
        stage=shlex.quote(str(stage)),
        node=os.uname().nodename,
        name=contract.REPRODUCER,
        sides=" or ".join(name if name == label else f"{name} ({label})" for name, label in sides),
        runs="\n".join(runs),
    )


def environment_of(job: str) -> str:
    """Return the job's script before it runs the sides, without what it removes in the end."""
    lines = job.partition(contract.RUNS_FOLLOW)[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("trap "))
