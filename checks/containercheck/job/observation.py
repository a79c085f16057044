"""Record the environment of a side from inside, once before the rounds (standard library only, Python 3.6 or newer).

    python3 checks/containercheck/job observe --ranks 4 subject
    python3 checks/containercheck/job observe --alone subject

The first runs the side's command for this (launch.py): its launcher, its container, and in it ``observe.sh``, a script
for any POSIX shell. One rank prints:

- variables, limits, mounts, free space in /dev/shm, capabilities, cgroups and their limits;
- network interfaces, devices, instructions, settings of the kernel and the C library.

On each other node, one rank writes down the facts that may differ there. ``subject.observed.json`` has only publishable
facts: values of variables that are known to hold settings, and fingerprints of other values (job/variables.py). Whole
environments never reach the disk. A failed observation is left out, and the rounds begin anyway.

The second starts one process in the side's container without a launcher, which would give each rank its own variables.
It writes ``subject.surroundings``, which serves to compare two containers (verdict/findings.py), or fails.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from containercheck.job import contract, launch, processes, texts, variables
from containercheck.job.container_runtimes import IMAGE_SCRIPT, METADATA, RUNTIMES
from containercheck.job.explain.observations import DIRECTORY
from containercheck.job.run_observation import NO_LIMIT

#: Seconds that an observation may take; and most bytes of it that are read.
PATIENCE, MOST = 60.0, 4 << 20
#: Beginning of a section's title, which is a line by itself.
TITLE = "@@containercheck "
#: Instructions by which libraries choose their kernels: levels 2 to 4 of the x86-64 psABI and later ones; for Arm by
#: Linux's names (its manual, ARM64 ELF hwcaps).
INSTRUCTIONS = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_tile"),
    *("asimd", "asimddp", "sve", "sve2", "bf16"),
)
#: The script, for any POSIX shell.
SCRIPT = Path(__file__).with_name("observe.sh").read_text(encoding="utf-8").replace("METADATA", METADATA)
#: Beginnings of the names of variables with which a runtime sets others in the container (APPTAINERENV_).
_SETS = tuple(runtime.settings.rstrip("_") + "ENV_" for runtime in RUNTIMES if runtime.settings)
#: Names of the variables with which a runtime starts programs in another directory.
_DIRECTORIES = [runtime.settings + word for runtime in RUNTIMES if runtime.settings for word in ("CWD", "PWD")]


def sections(text: str) -> Dict[str, str]:
    """Return the output of a rank, by the titles of its sections; text before the first title is ignored."""
    parts = re.split(rf"^{TITLE}(\w+)\n", text, flags=re.MULTILINE)
    return {title: body[:-1] if body.endswith("\n") else body for title, body in zip(parts[1::2], parts[2::2])}


def read(text: str, key: bytes, job: Mapping[str, str], lasting: bytes = b"") -> Dict[str, Any]:
    """Return the observation of a rank, without secrets; empty if it is not complete.

    :param text: output of the rank.
    :param key: for fingerprints of variables.
    :param job: variables of the job outside of the container; with some of them a runtime sets others.
    :param lasting: key for fingerprints that are the same in every job; empty for none.
    """
    parts = sections(text)
    if "end" not in parts or "environment" not in parts:
        return {}
    environment = _environment(parts["environment"])
    seen = {
        "host": parts.get("host", "").strip(),
        "environment": {name: variables.redacted(name, value, key) for name, value in environment},
        "fingerprints": {name: variables.lasting(name, value, lasting) for name, value in environment},
        "set_by": _set_by(job),
        "image_variables": sorted(set(re.findall(r"([A-Za-z_]\w*)=$", parts.get("image", ""), re.MULTILINE))),
        "hidden_programs": dict(row for row in _words(parts, "programs") if len(row) == 2),
        "hooks": [path for path in parts.get("hooks", "").split() if not IMAGE_SCRIPT.search(path)],
        "user": parts.get("user", "").strip(),
    }
    return texts.cleaned({**seen, **_node(parts, key)})


def _set_by(job: Mapping[str, str]) -> Dict[str, str]:
    by_name = {
        name[len(prefix) :]: name
        for name in sorted(job)
        for prefix in _SETS
        if name.startswith(prefix) and name != prefix
    }
    # Some add places to the image's PATH.
    for name in (by_name[added] for added in ("APPEND_PATH", "PREPEND_PATH") if added in by_name):
        by_name.update((f"PATH {place}", name) for place in variables.redacted("PATH", job[name], b"").split(":"))
    directories = [name for name in _DIRECTORIES if name in job]
    return {**by_name, DIRECTORY: directories[0]} if directories else by_name


def _words(parts: Mapping[str, str], section: str) -> List[List[str]]:
    return [line.split() for line in parts.get(section, "").splitlines() if line.strip()]


def _node(parts: Mapping[str, str], key: bytes) -> Dict[str, Any]:
    """Return the facts that may differ between nodes."""
    return {
        "settings": {
            f"{row[0]} {row[1]}": variables.redacted(f"OMPI_MCA_{row[1]}", " ".join(row[2:]), key)
            for row in _words(parts, "settings")
            if len(row) > 2
        },
        "limits": _limits(parts.get("limits", ""), 2),
        "hard_limits": _limits(parts.get("limits", ""), 3),
        "status": dict(_status(parts.get("status", ""))),
        "mounts": dict(_mounts(parts.get("mounts", ""))),
        "cgroup": [line for line in parts.get("cgroup", "").splitlines() if line],
        "cgroup_limits": _cgroup_limits(_words(parts, "cgroups")),
        "space": {row[-1]: [_bytes(row[1]), _bytes(row[3])] for row in _words(parts, "space") if len(row) >= 6},
        "directories": {" ".join(row[1:]): row[0] for row in _words(parts, "directories")},
        "interfaces": re.findall(r"^ *([\w.@-]+):", parts.get("interfaces", ""), re.MULTILINE),
        "machine": next((row[0] for row in _words(parts, "processor")), ""),
        "instructions": [word for row in _words(parts, "processor")[1:] for word in row if word in INSTRUCTIONS],
        "devices": [row[0] for row in _words(parts, "devices")],
        "kernel": {row[0].rpartition("/")[2]: " ".join(row[1:]) for row in _words(parts, "kernel")},
        "libc": _libc(parts.get("libc", "")),
        "system": "".join(re.findall(r'^PRETTY_NAME="?([^"\n]+)', parts.get("system", ""), re.MULTILINE)[:1]),
    }


def of_other_nodes(gathering: Path, first: Mapping[str, Any], key: bytes) -> Dict[str, Dict[str, Any]]:
    """Return the facts on each other node of the job that differ from the first observation, by the node's name.

    :param gathering: the directory into which a rank of each node wrote.
    :param key: for fingerprints of settings.
    """
    nodes = {}
    for path in sorted(gathering.glob("node.*/seen")):
        with path.open("rb") as stream:
            parts = sections(os.fsdecode(stream.read(MOST)))
        if "end" in parts:
            found = texts.cleaned(_node(parts, key))
            nodes[path.parent.name[len("node.") :]] = {
                name: value for name, value in found.items() if value != first.get(name)
            }
    return nodes


def _environment(text: str) -> List[Tuple[str, str]]:
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return [(texts.printable(name), value) for name, _, value in pairs]


def _limits(text: str, column: int) -> Dict[str, str]:
    """Return limits by name, in the words of /proc: ``Max locked memory``.

    :param column: 2 for the soft ones, 3 for the hard ones.
    """
    rows = re.finditer(r"^(Max .*?) {2,}(\S+) +(\S+)", text, re.MULTILINE)
    return {row.group(1): row.group(column) for row in rows}


def _cgroup_limits(rows: List[List[str]]) -> Dict[str, float]:
    """Return the limits of a process's cgroups: ``processors``, bytes of ``memory``, ``processes``.

    :param rows: file, its first line and the cgroup's place, for the cgroup and all above it; the lowest limit counts.
    """
    found: Dict[str, List[float]] = {}
    periods = {row[-1]: float(row[1]) for row in rows if row[0] == "cpu.cfs_period_us" and row[1].isdigit()}
    for name, number, *rest in (row for row in rows if len(row) > 2 and row[1].isdigit()):
        value = float(number)
        if name == "cpu.max" and rest[0].isdigit() and int(rest[0]):
            found.setdefault("processors", []).append(value / int(rest[0]))
        elif name == "cpu.cfs_quota_us" and periods.get(rest[-1]):
            found.setdefault("processors", []).append(value / periods[rest[-1]])
        elif name.startswith("memory.") and value < NO_LIMIT:
            found.setdefault("memory", []).append(value)
        elif name == "pids.max":
            found.setdefault("processes", []).append(value)
    return {name: min(values) for name, values in found.items()}


def _status(text: str) -> List[Tuple[str, str]]:
    wanted = r"CapEff|NoNewPrivs|Seccomp|Speculation_Store_Bypass|THP_enabled"
    wanted += r"|Cpus_allowed_list|Mems_allowed_list|Umask|Timer_slack|Disk_priority|Home|Directory"
    wanted += r"|Nice|Policy|Oom_score|Personality|Memory_policy|SigIgn|SigBlk"
    return re.findall(rf"^({wanted}):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)


def _mounts(text: str) -> List[Tuple[str, List[str]]]:
    mounts = []
    for row in (line.split() for line in text.splitlines()):
        if len(row) > 6 and "-" in row[6:]:
            dash = row.index("-", 6)
            mounts.append((row[4], [row[dash + 1], row[dash + 2], row[5], *row[dash + 3 : dash + 4]]))
    return mounts


def _bytes(text: str) -> int:
    return 1024 * int(text) if text.isdigit() else 0


def _libc(text: str) -> str:
    return "musl" if "musl" in text else " ".join(text.split("\n")[0].split())


def observe(side: str, ranks: int, patience: float = PATIENCE, command: str = contract.OBSERVE_SIDE) -> Dict[str, Any]:
    """Start the side once; return the observation of one rank, and ``nodes``: the differences on each other node.

    :param ranks: number of ranks that its launcher starts.
    :param patience: seconds that it may take.
    :param command: the command of the side to start.
    :raises OSError: a file cannot be written, or nothing was printed.
    """
    Path(contract.OBSERVE).write_text(SCRIPT)
    gathering = Path(contract.observing_directory(side))
    shutil.rmtree(str(gathering), ignore_errors=True)
    gathering.mkdir()
    Path(gathering, "expected").write_text(f"{max(1, ranks)}\n")
    words = ["bash", "-c", launch.Launch(side).script(command)]
    # A failed observation is left out; a container that does not start prints the reason.
    stderr = subprocess.DEVNULL if command == contract.OBSERVE_SIDE else None
    text = processes.output_of(words, patience, most=MOST, env=processes.environment(), stderr=stderr)
    processes.wait_for_all(2.0)
    processes.kill_all()
    processes.reap()
    key = variables.key_of(Path(contract.KEY))
    seen = read(text, key, os.environ, variables.lasting_key())
    nodes = of_other_nodes(gathering, seen, key)
    shutil.rmtree(str(gathering), ignore_errors=True)
    if not seen:
        raise OSError("it printed no observation")
    return {**seen, "nodes": nodes}


def record(side: str, ranks: int, patience: float = PATIENCE) -> None:
    """Write the observation of a side; print one line if it fails.

    :param ranks: number of ranks that its launcher starts.
    :param patience: seconds that it may take, :data:`PATIENCE` at most.
    """
    try:
        seen = observe(side, ranks, min(PATIENCE, patience))
        variables.write_private(Path(contract.observed_file(side)), json.dumps(seen))
    except (OSError, ValueError) as error:
        print(f"what {side} sees is not recorded: {error}", file=sys.stderr)


def main() -> None:
    """Write the observation of a side.

    :raises SystemExit: a process without a launcher printed no observation.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=0, help="how many the launcher starts")
    parser.add_argument("--alone", action="store_true", help="one process, without a launcher")
    parser.add_argument("side")
    arguments = parser.parse_args()
    side = arguments.side
    processes.adopt_orphans()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if not arguments.alone:
        record(side, arguments.ranks)
        return
    try:
        seen = observe(side, 1, command=contract.SURROUNDINGS)
    except OSError as error:
        sys.exit(f"error: the container of {side} does not start: {error}")
    variables.write_private(Path(contract.surroundings_file(side)), json.dumps(seen))
