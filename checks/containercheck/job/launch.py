"""Fill in the commands of a side on the node that runs them (standard library only, Python 3.6 or newer; in the job).

    python3 checks/containercheck/job enter subject preflight

runs one of the commands of ``commands.json``. These are lines of shell with slots such as ``{{options}}`` for words
that only the node knows: the options of its container runtime, the host's MPI, the words that start ranks. The programs
that find these words write them into ``subject.launch.json``. The executed script has no slots, and is kept next to its
output. The same commands also start a side with one change (:meth:`Launch.with_remedy`).
"""

import argparse
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from containercheck.job import contract, texts, variables
from containercheck.job.explain import causes

#: Slots: words before the container runtime; its options on this node; options of the host's MPI; options of a remedy;
#: words before the program; the image to run; the directory of the unpacked image; the name of the
#: side.
_NAMES = ("start", "options", "mpi-options", "changes", "prefix", "image", "tree", "side")
START, OPTIONS, MPI_OPTIONS, CHANGES, PREFIX, IMAGE, TREE, SIDE = ("{{" + name + "}}" for name in _NAMES)
_SLOT = re.compile(r"\{\{(" + "|".join(_NAMES) + r"|content of [\w.-]+)\}\}( ?)")
#: The option of srun that chooses a PMI plugin.
PLUGIN_OPTION = re.compile(r"--mpi[= ](\S+)")
#: Options of the shell's ``ulimit`` by the name of the limit in /proc, and the bytes of its unit: POSIX shells and
#: bash(1). Some shells have another option for processes (dash(1): -p).
ULIMITS = {
    "Max locked memory": (("l",), 1024),
    "Max stack size": (("s",), 1024),
    "Max address space": (("v",), 1024),
    "Max processes": (("u", "p"), 1),
    "Max cpu time": (("t",), 1),
    "Max open files": (("n",), 1),
    "Max data size": (("d",), 1024),
    "Max file size": (("f",), 512),
    "Max core file size": (("c",), 512),
}

#: Repeats a single run of a side outside the job. It has the environment of the job's script, and each side's script of
#: the job. It needs the job's image and input: ReFrame removes the stage directory after a pass, unless it has the
#: option ``--keep-stage-files``.
_REPRODUCER = """{head}
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


def content_of(file: str) -> str:
    """Return the slot for the content of a file in the stage directory."""
    return f"{{{{content of {file}}}}}"


class Launch:
    """Hold the commands of a side, with the words for their slots.

    :param name: of the side.
    :ivar commands: by name (job/contract.py), with slots.
    :ivar words: by slot, as lists; ``image`` is text of the shell.
    :ivar container: empty for a side without a container. The entries: the image to run (``image``); the option for a
        bind (``bind``); the options for GPUs (``gpus``); whether the image may be unpacked (``unpacks``); the runtime's
        ``command``, and the ``options`` of site and check, quoted. For runtime_start.py, ``start`` has the ``way`` to
        run images; the ``ranks`` of MPI on a node, 0 without MPI; whether the image brings its own MPI and settings
        (``own_environment``); the link to an image ``file``, empty for the runtime's own storage, and the path to
        ``copy_to``; and the ``required_option`` of a launcher's plugin that starts containers. For host_mpi.py,
        ``host`` has the bare ``program``, ``library`` and ``family`` of the host's MPI, and the ``trees`` of the host
        that are bound with the program, each ``source:target``; None for the image's own MPI.
    :raises OSError: the stage directory has no commands.
    """

    def __init__(self, name: str) -> None:
        """Read the commands, and the known words of the node."""
        self.name = name
        self.words = _read(Path(contract.launch_file(name)))
        stored = _read(Path(contract.COMMANDS))[self.words.get("of", name)]
        self.commands: Dict[str, str] = stored["commands"]
        for option in self.words.get("without", ()):
            self.commands = {name: text.replace(f" {option} ", " ") for name, text in self.commands.items()}
        self.container: Dict[str, Any] = stored["container"]
        if "direct" in self.words:
            script, runtime = (f" {shlex.quote(path)} " for path in (self.container["command"], self.words["direct"]))
            for name, (before, start, line) in [(name, text.partition(START)) for name, text in self.commands.items()]:
                self.commands[name] = before + start + line.replace(script, runtime, 1)

    def script(self, command: str) -> str:
        """Return the text of one of the commands, without slots."""
        text = _SLOT.sub(self._fill, self.commands[command])
        plugin = self.words.get("plugin")
        return with_plugin(text, plugin) if plugin else text

    @property
    def run(self) -> str:
        """The text of one run of the side."""
        return self.script(contract.RUN_INSIDE if self.words.get("is-inside") else contract.RUN_SIDE)

    @property
    def image(self) -> str:
        """The image to run, as text of the shell; only the node may know its name."""
        return _SLOT.sub(self._fill, self.words.get("image") or self.container["image"])

    def _fill(self, match: Any) -> str:
        slot, blank = match.groups()
        if slot == "side":
            return self.name + blank
        if slot == "image":
            text = self.image
        elif slot == "tree":
            text = self.words["image"]
        elif slot.startswith("content of "):
            text = " ".join(map(shlex.quote, os.fsdecode(Path(slot[len("content of ") :]).read_bytes()).split()))
        else:
            text = " ".join(map(shlex.quote, self.words.get(slot, ())))
        return text + blank if text else ""

    def fits(self, remedy: causes.Change) -> bool:
        """Return whether the side's own commands can carry a remedy out (job/explain/causes.py)."""
        if remedy.kind == causes.UNPACK:
            return bool(self.container["unpacks"]) and "image" not in self.words
        if remedy.kind == causes.GPUS:
            return bool(self.container["gpus"])
        return True

    def with_remedy(self, name: str, remedy: causes.Change) -> "Launch":
        """Save a side with one change to the container, and return it.

        :param name: of the new side.
        """
        words = {**self.words, "of": self.words.get("of", self.name)}
        for part in remedy.parts:
            words = self._changed(words, name, *part)
        note(name, words)
        return Launch(name)

    def _changed(self, words: Dict[str, Any], name: str, kind: str, value: str) -> Dict[str, Any]:
        """Return the words for slots with one more change.

        :param name: of the new side.
        """
        changes: List[str] = list(words.get("changes", ()))
        prefix: List[str] = list(words.get("prefix", ()))
        words = dict(words)
        if kind == causes.UNSET:
            prefix = ["env", "-u", value, *prefix]
        elif kind == causes.SET:
            prefix = ["env", *value.split(causes.AND), *prefix]
        elif kind == causes.OPTION:
            changes += shlex.split(value)
        elif kind == causes.BIND:
            source, _, target = value.partition(":")
            changes.append(self.container["bind"].format(source=source, target=target or source))
        elif kind == causes.CPUS:
            prefix = ["taskset", "-c", value, *prefix]
        elif kind == causes.LIMIT:
            prefix = [*limited(*value.split("=")), *prefix]
        elif kind == causes.PREFIX:
            prefix = [*shlex.split(value), *prefix]
        elif kind == causes.GPUS:
            changes += shlex.split(self.container["gpus"])
        elif kind == causes.UNPACK:
            words["image"] = f"{contract.UNPACKED}.{name}"
        elif kind == causes.HIDE:
            words["start"] = [*words.get("start", ()), "env", "-u", value]
        elif kind == causes.WITHOUT:
            words["without"] = [*words.get("without", ()), value]
        elif kind == causes.DIRECT:
            words["direct"] = value
        elif kind == causes.PLUGIN:
            words["plugin"] = value
        return {**words, "changes": changes, "prefix": prefix}


def note(side: str, words: Dict[str, Any]) -> None:
    """Save words for slots of a side's commands, in addition to the known ones."""
    path = Path(contract.launch_file(side))
    texts.write(path, json.dumps({**_read(path), **words}))


def with_plugin(command: str, plugin: str) -> str:
    """Return a command of srun with another PMI plugin.

    >>> with_plugin("srun --mpi=pmi2 -n 2 code", "pmix"), with_plugin("srun -n 2 code", "pmix")
    ('srun --mpi=pmix -n 2 code', 'srun --mpi=pmix -n 2 code')
    """
    if PLUGIN_OPTION.search(command):
        return PLUGIN_OPTION.sub(f"--mpi={plugin}", command)
    return re.sub(r"\bsrun(?= )", f"srun --mpi={plugin}", command, count=1)


def limited(name: str, value: str) -> List[str]:
    """Return words that set a soft limit for the program after them; they fail above the hard limit.

    :param name: of the limit, in the words of /proc.
    """
    options, unit = ULIMITS[name]
    amount = value if not value.isdigit() else str(int(value) // unit)
    setting = " || ".join(f'ulimit -S -{option} "$0"' for option in options)
    return ["sh", "-c", f'{{ {setting}; }} && exec "$@"', amount]


def write_reproducer(sides: Sequence[Tuple[str, str]], processors: str = "") -> None:
    """Write the script that repeats a run of a side; print a line if that fails, as the rounds go on.

    Only its owner may read it, like the job's script: the site's file may set secrets.

    :param sides: name and label of each.
    :param processors: those of a side's half of the node, as Linux lists them; empty for all.
    """
    try:
        variables.write_private(Path(contract.REPRODUCER), reproducer_text(sides, Path.cwd(), processors))
    except (OSError, ValueError, KeyError) as error:
        print(f"there is no {contract.REPRODUCER}: {error}", flush=True)


def reproducer_text(sides: Sequence[Tuple[str, str]], stage: Path, processors: str = "") -> str:
    """Return the script that repeats a run of a side; the parameters are those of :func:`write_reproducer`."""
    confined = [f"taskset -cp {processors} $$ >/dev/null"] if processors else []
    runs = ["\n".join([f"{name})", *confined, Launch(name).run, ";;"]) for name, _ in sides]
    # The job's script up to the rounds, without its clean-up.
    lines = os.fsdecode(Path(contract.JOB).read_bytes()).partition(contract.RUNS_FOLLOW)[0].splitlines()
    return _REPRODUCER.format(
        head="\n".join(line for line in lines if not line.startswith("trap ")),
        stage=shlex.quote(str(stage)),
        node=os.uname().nodename,
        name=contract.REPRODUCER,
        sides=" or ".join(name if name == label else f"{name} ({label})" for name, label in sides),
        runs="\n".join(runs),
    )


def _read(path: Path) -> Dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main() -> None:
    """Replace this process by one of the commands of a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side")
    parser.add_argument("command")
    arguments = parser.parse_args()
    text = Launch(arguments.side).script(arguments.command)
    os.execvp("bash", ["bash", "-c", text])
