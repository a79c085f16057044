"""Record what a side sees, from inside and once before the rounds (standard library only, Python 3.6 or newer).

    python3 checks/containercheck observe --ranks 4 subject

runs ``subject.observe.sh``: the launcher of the side's own commands, its container, and in it ``observe.sh``, a script
for any POSIX shell. One rank prints variables, limits, mounts, what is free in /dev/shm, capabilities, cgroups, network
interfaces, devices, settings of the kernel and the C library; on each other node, one writes down what may differ
there. ``subject.observed.json`` has what may be published:
values of variables that are known to hold settings, of others a fingerprint (node/variables.py). Whole environments
never reach the disk. An observation that fails is left out, and the rounds begin all the same.
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

from containercheck.node import contract, texts, variables
from containercheck.node.container_runtimes import METADATA, RUNTIMES
from containercheck.node.job import belonging, processes

#: Seconds that an observation may take; and most bytes that are read of it.
PATIENCE, MOST = 60.0, 4 << 20
#: Begins the title of a section, in a line of its own.
TITLE = "@@containercheck "
#: The settings of the kernel that matter to MPI, containers and memory.
KERNEL = (
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)
#: Files with settings of MPI libraries, where distributions and people have them.
SETTINGS = (
    "/etc/openmpi/openmpi-mca-params.conf",
    "$HOME/.openmpi/mca-params.conf",
    "/etc/pmix-mca-params.conf",
    "/etc/ucx/ucx.conf",
)
#: Prints what a rank sees, and on each other node of the job writes into a file what may differ there; never the
#: environment, which stays off the disk. Ranks of Apptainer's shared namespace fail if another one ends before they
#: join: each waits until all are there, two seconds at most. ``$1`` is a directory for that, with the number of ranks.
SCRIPT = (
    r"""
here=$1
host=$(cat /proc/sys/kernel/hostname)
: >"$here/rank.$host.$$"
tries=0
until [ "$(ls "$here" | grep -c '^rank')" -ge "$(cat "$here/expected")" ] || [ $tries -ge 40 ]; do
    sleep 0.05 2>/dev/null || sleep 1
    tries=$((tries + 1))
done
title() { printf '\n%s\n' "TITLE$1"; }
node() {
title limits
cat /proc/self/limits
title status
cat /proc/self/status
title priority
cat /proc/self/stat
title mounts
cat /proc/self/mountinfo
title cgroup
cat /proc/self/cgroup
title space
for place in /dev/shm /tmp "${TMPDIR:-/tmp}"; do df -Pk "$place" | tail -n 1; done
title directories
for place in "${TMPDIR:-/tmp}" "${HOME:-/}" "$PWD"; do
    if [ ! -d "$place" ]; then word=missing; elif [ ! -w "$place" ]; then word=unwritable; else word=usable; fi
    printf '%s %s\n' "$word" "$place"
done
title interfaces
cat /proc/net/dev
title devices
ls -d /dev/infiniband/* /dev/nvidia[0-9]* /dev/kfd /dev/dri/render* /dev/knem /dev/xpmem /dev/fuse /dev/cxi* /dev/hfi1*
title kernel
for name in KERNEL; do [ ! -r "$name" ] || printf '%s %s\n' "$name" "$(cat "$name")"; done
title libc
ls /lib/ld-musl-* /usr/lib/libmusl* || getconf GNU_LIBC_VERSION || ldd --version | head -n 1
title system
cat /etc/os-release
title settings
for name in SETTINGS; do
    [ ! -r "$name" ] || sed -n "s|^ *\([A-Za-z][A-Za-z_0-9]*\) *= *\(.*\)|$name \1 \2|p" "$name"
    echo
done
}
mkdir "$here/node.$host" 2>/dev/null || exit 0
if ! mkdir "$here/printer" 2>/dev/null; then
    umask 077
    { node; title end; } >"$here/node.$host/part" && mv "$here/node.$host/part" "$here/node.$host/seen"
    exit 0
fi
title environment
cat /proc/self/environ
node
title host
echo "$host"
title user
id
title namespaces
for name in user mnt pid net ipc uts cgroup; do printf '%s %s\n' "$name" "$(readlink /proc/self/ns/$name)"; done
title image
grep -hoE '^ *(export +)?[A-Za-z_][A-Za-z_0-9]*=' /METADATA/env/*.sh
title end
""".replace("TITLE", TITLE)
    .replace("METADATA", METADATA)
    .replace("KERNEL", " ".join(KERNEL))
    .replace("SETTINGS", " ".join(f'"{name}"' for name in SETTINGS))
    .lstrip()
)
#: Beginnings of the names of variables by which a runtime sets others in the container (APPTAINERENV_).
_SETS = tuple(runtime.settings.rstrip("_") + "ENV_" for runtime in RUNTIMES if runtime.settings)


def sections(text: str) -> Dict[str, str]:
    """Return what a rank printed, by the titles of its sections; nothing before the first title counts."""
    parts = re.split(rf"^{TITLE}(\w+)\n", text, flags=re.MULTILINE)
    return {title: body[:-1] if body.endswith("\n") else body for title, body in zip(parts[1::2], parts[2::2])}


def read(text: str, key: bytes, job: Mapping[str, str], lasting: bytes = b"") -> Dict[str, Any]:
    """Return what a rank saw, without secrets; empty if it printed no whole observation.

    :param text: what it printed.
    :param key: for fingerprints of variables.
    :param job: variables of the job outside of the container: by some of them a runtime sets others.
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
        "set_by": {
            name[len(prefix) :]: name
            for name in sorted(job)
            for prefix in _SETS
            if name.startswith(prefix) and name != prefix
        },
        "image_variables": sorted({found[0] for found in map(_name_of, parts.get("image", "").splitlines()) if found}),
        "user": parts.get("user", "").strip(),
        "namespaces": {row[0]: row[1] for row in _words(parts, "namespaces") if len(row) == 2},
    }
    return texts.cleaned({**seen, **_node(parts, key)})


def _words(parts: Mapping[str, str], section: str) -> List[List[str]]:
    return [line.split() for line in parts.get(section, "").splitlines() if line.strip()]


def _node(parts: Mapping[str, str], key: bytes) -> Dict[str, Any]:
    """Return what may be another on each node."""
    return {
        "settings": {
            f"{row[0]} {row[1]}": variables.redacted(f"OMPI_MCA_{row[1]}", " ".join(row[2:]), key)
            for row in _words(parts, "settings")
            if len(row) > 2
        },
        "limits": _limits(parts.get("limits", "")),
        "priority": _priority(parts.get("priority", "")),
        "status": dict(_status(parts.get("status", ""))),
        "mounts": dict(_mounts(parts.get("mounts", ""))),
        "cgroup": [line for line in parts.get("cgroup", "").splitlines() if line],
        "space": {row[-1]: [_bytes(row[1]), _bytes(row[3])] for row in _words(parts, "space") if len(row) >= 6},
        "directories": {" ".join(row[1:]): row[0] for row in _words(parts, "directories")},
        "interfaces": re.findall(r"^ *([\w.@-]+):", parts.get("interfaces", ""), re.MULTILINE),
        "devices": [row[0] for row in _words(parts, "devices")],
        "kernel": {row[0].rpartition("/")[2]: " ".join(row[1:]) for row in _words(parts, "kernel")},
        "libc": _libc(parts.get("libc", "")),
        "system": "".join(re.findall(r'^PRETTY_NAME="?([^"\n]+)', parts.get("system", ""), re.MULTILINE)[:1]),
    }


def of_other_nodes(gathering: Path, first: Mapping[str, Any], key: bytes) -> Dict[str, Dict[str, Any]]:
    """Return what differs from the first observation on each other node of the job, by the node's name.

    :param gathering: the directory into which a rank of each wrote.
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


def _name_of(line: str) -> List[str]:
    return re.findall(r"([A-Za-z_]\w*)=$", line)


def _limits(text: str) -> Dict[str, str]:
    """Return the soft limits by name, in the words of /proc: ``Max locked memory``."""
    rows = re.findall(r"^(Max .*?) {2,}(\S+) +(\S+)", text, re.MULTILINE)
    return {name: soft for name, soft, _ in rows}


def _status(text: str) -> List[Tuple[str, str]]:
    wanted = r"CapEff|CapBnd|NoNewPrivs|Seccomp|Speculation_Store_Bypass|THP_enabled"
    wanted += r"|Cpus_allowed_list|Mems_allowed_list|Groups"
    return re.findall(rf"^({wanted}):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)


def _priority(text: str) -> List[int]:
    """Return the nice value and the number of the kernel's policy from /proc/<pid>/stat; empty if it has none."""
    fields = text.rpartition(")")[2].split()
    return [int(fields[16]), int(fields[38])] if len(fields) > 38 else []


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


def observe(side: str, ranks: int) -> Dict[str, Any]:
    """Start the side once, and return what one of its ranks saw, and ``nodes``: what differs on each other node.

    :param ranks: number of ranks that its launcher starts.
    :raises OSError: a file cannot be written, or the script not be started.
    """
    Path(contract.OBSERVE).write_text(SCRIPT)
    gathering = Path(contract.observing_directory(side))
    shutil.rmtree(str(gathering), ignore_errors=True)
    gathering.mkdir()
    Path(gathering, "expected").write_text(f"{max(1, ranks)}\n")
    text = _output(contract.observe_file(side))
    key = variables.key_of(Path(contract.KEY))
    seen = read(text, key, os.environ, variables.lasting_key())
    if seen:
        seen["nodes"] = of_other_nodes(gathering, seen, key)
    shutil.rmtree(str(gathering), ignore_errors=True)
    return seen


def _output(script: str) -> str:
    """Return what a script prints within its time, on standard output; what it leaves is ended."""
    process = subprocess.Popen(
        ["bash", script],
        env=belonging.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=os.setpgrp,
    )
    try:
        out = process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        processes.end(process.pid, 1.0)
        out = process.communicate()[0]
    belonging.wait_for_all(2.0)
    belonging.kill_all()
    processes.reap()
    return os.fsdecode(out[:MOST])


def main() -> None:
    """Write the observation of a side; a failure is one line of the job's output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=0, help="how many the launcher starts")
    parser.add_argument("side")
    arguments = parser.parse_args()
    processes.adopt_orphans()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        seen = observe(arguments.side, arguments.ranks)
    except (OSError, ValueError) as error:
        print(f"what {arguments.side} sees is not recorded: {error}", file=sys.stderr)
        return
    if not seen:
        print(f"what {arguments.side} sees is not recorded: it printed nothing", file=sys.stderr)
        return
    variables.write_private(Path(contract.observed_file(arguments.side)), json.dumps(seen))
