"""Write ``reproduce.sh``, which repeats a single run of a side outside the job (standard library only, Python 3.6).

    bash reproduce.sh                    lists the sides
    bash reproduce.sh subject [WORK]     runs a side in the directory WORK, which is made

It has the environment of the job's script, the commands with the options that the node's runtime needs, and the files
that the runs find in the stage directory, which ReFrame removes after a pass. Files that are too large for that come
from the stage directory while it exists, or are made again by the job's commands. Only its owner may read it, as the
job's script: the site's file may set secrets.
"""

import base64
import io
import os
import re
import shlex
import tarfile
from pathlib import Path
from typing import Any, List, Sequence, Tuple

from containercheck.node import contract, variables

#: Most bytes of all files in it; of further ones only the names are kept.
MOST = 4 << 20
#: Files that the job itself writes, and the runs do not read.
NOT_CARRIED = re.compile(
    r"rfm_\w+\.(sh|out|err)|\.rfm_.*|build\.status|variables\.key|facts\.json|rounds\.json|.*\.surroundings"
)
DIRECTORIES = (contract.RUNS, contract.WATCH, contract.TRIALS, contract.DUET)
#: Substitution of a file's content in a command.
TAKEN_IN = re.compile(r"\$\(cat ([\w.-]+)\)( ?)")
#: First line after the environment in the job's script: it writes the scripts of the sides.
SCRIPTS = re.compile(r"cat >\S+ <<'END_*'")
ARCHIVE = "#ARCHIVE"
TEXT = """{head}
# Repeats one run of a side, as the job in {stage} had it on {node}; on a cluster, in an allocation like its own:
#   bash {name} SIDE [WORK]     SIDE is {sides}
stage={quoted}
side=${{1:-}}
case $side in
{names}) ;;
*)
    echo "usage: bash {name} SIDE [WORK]: SIDE is {sides}; WORK is a directory to run in" >&2
    exit 2
    ;;
esac
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
mkdir -p "${{2:-reproduce-$side}}" && cd "${{2:-reproduce-$side}}" || exit 1
work=$PWD
sed '1,/^{archive}$/d' "$script" | base64 -d | tar -xzf - || exit 1
missing=
for file in {large}; do
    if [ -e "$stage/$file" ]; then ln -sfn "$stage/$file" "$file"; else missing="$missing $file"; fi
done
for file in {elsewhere}; do
    [ -e "$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "made again:$missing" >&2
    sed "s|$stage|$work|g" {prepare} >again.sh && bash -e again.sh >&2 || exit 1
fi
case $side in
{runs}
esac
sed -i "s|$stage|$work|g" run.sh
{confined}bash run.sh
exit
{archive}
{carried}
"""


def write(sides: Sequence[Tuple[str, str]], job: Path, stage: Path, processors: str = "") -> None:
    """Write the script into the stage directory; if that fails, print a line, and the rounds go on.

    :param sides: name and label of each.
    :param job: the job's script.
    :param processors: those of a side's half of the node, as Linux lists them; empty for all.
    """
    try:
        variables.write_private(Path(stage, contract.REPRODUCER), text_of(sides, job.read_text(), stage, processors))
    except (OSError, ValueError) as error:
        print(f"there is no {contract.REPRODUCER}: {error}", flush=True)


def text_of(sides: Sequence[Tuple[str, str]], job: str, stage: Path, processors: str = "") -> str:
    """Return the script.

    :param job: text of the job's script.
    :param processors: see :func:`write`.
    """
    carried, large = archive(stage)
    head = environment_of(job)
    script_of = "{0})\ncat >run.sh <<'{1}'\n{2}\n{1}\n;;".format
    texts = {name: expanded((stage / contract.script_file(name)).read_text(), stage) for name, _ in sides}
    runs = [script_of(name, contract.end_word(text), text) for name, text in texts.items()]
    return TEXT.format(
        head=head,
        stage=stage,
        quoted=shlex.quote(str(stage)),
        node=os.uname().nodename,
        name=contract.REPRODUCER,
        sides=" or ".join(name if name == label else f"{name} ({label})" for name, label in sides),
        names="|".join(name for name, _ in sides),
        large=" ".join(map(shlex.quote, large)),
        elsewhere=" ".join(map(shlex.quote, removed_by(head))),
        prepare=contract.PREPARE,
        runs="\n".join(runs),
        archive=ARCHIVE,
        carried=carried,
        confined=f"taskset -c {processors} " if processors else "",
    )


def environment_of(job: str) -> str:
    """Return the job's script before it writes the scripts of the sides: options, modules, variables."""
    lines = job.splitlines()
    end = next((number for number, line in enumerate(lines) if SCRIPTS.match(line)), 1)
    return "\n".join(lines[:end])


def removed_by(head: str) -> List[str]:
    """Return the files and directories outside the stage directory that the job removes when it ends."""
    trap = re.search(r"^trap (.*) EXIT$", head, re.MULTILINE)
    return shlex.split(shlex.split(trap.group(1))[0])[3:] if trap else []


def expanded(script: str, stage: Path) -> str:
    """Return a script with the content of the files that the shell would substitute."""

    def content(match: Any) -> str:
        file = stage / match.group(1)
        if not file.is_file():
            return match.group(0)
        # The shell splits it at blanks, and expands nothing in it.
        words = " ".join(map(shlex.quote, file.read_text().split()))
        return words + match.group(2) if words else ""

    return TAKEN_IN.sub(content, script).strip()


def archive(stage: Path) -> Tuple[str, List[str]]:
    """Return the files of a stage directory as text, and the names of those that are too large for that."""
    packed, space = io.BytesIO(), MOST
    large: List[str] = []
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path in found_by_runs(stage):
            size = size_of(path, space)
            if size > space:
                large.append(path.name)
            else:
                space -= size
                tar.add(str(path), arcname=path.name)
    return base64.encodebytes(packed.getvalue()).decode().strip(), large


def found_by_runs(stage: Path) -> List[Path]:
    """Return the files and directories of a stage directory that runs may read, by name."""
    others = (*DIRECTORIES, contract.REPRODUCER)
    return sorted(path for path in stage.iterdir() if path.name not in others and not NOT_CARRIED.fullmatch(path.name))


def size_of(path: Path, enough: int) -> int:
    """Return the bytes of a file or of all files in a directory; counting stops beyond ``enough``."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    total = 0
    for directory, _, names in os.walk(str(path)):
        for name in names:
            total += os.lstat(os.path.join(directory, name)).st_size
            if total > enough:
                return total
    return total
