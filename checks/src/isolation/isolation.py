"""Finds out what two containers on a node see of each other, and of the node (standard library only, Python 3.6).

    python3 isolation.py -- apptainer exec image.sif sh

The command is started twice, as two jobs that share a node would be; it must be a shell. The first leaves a file in
/dev/shm and one in /tmp, and waits; the second looks for both, and for the first one's process. Each line of the answer
is about what the second sees: ``dev_shm``, ``tmp`` and ``processes`` of the first; whether it runs as the ``user`` who
started it; how many capabilities of the node it has that this user
lacks; whether it is in the ``cgroup`` of this process; and
which namespaces are its own.
"""

import argparse
import os
import secrets
import subprocess
import sys
from typing import Dict, List

#: Seconds that a container has to start and answer.
PATIENCE = 60
#: The first container's commands. The name of the process that waits is the mark, too.
LEAVE = (
    "echo {mark} >/dev/shm/{mark}; echo {mark} >/tmp/{mark}; echo ready; read {mark}; rm -f /dev/shm/{mark} /tmp/{mark}"
)
#: The second one's. Its own processes have the mark in their arguments too, but not the first one's word.
LOOK = """\
[ -e /dev/shm/{mark} ] && echo dev_shm yes || echo dev_shm no
[ -e /tmp/{mark} ] && echo tmp yes || echo tmp no
seen=no
for file in /proc/[0-9]*/cmdline; do
    case $({{ tr '\\0' ' ' <"$file"; }} 2>/dev/null) in *"echo ready; read {mark}"*) seen=yes ;; esac
done
echo processes $seen
echo uid $(id -u)
sed -n 's/^CapEff:[^0-9a-f]*/effective /p' /proc/self/status
for name in pid ipc uts net user mnt cgroup; do echo namespace $name $(readlink /proc/self/ns/$name); done
sed 's/^/cgroup /' /proc/self/cgroup
"""
NAMESPACES = ("pid", "ipc", "uts", "net", "user", "mnt", "cgroup")


class IsolationError(Exception):
    """A container did not start or answer; the message has what it printed."""


def look(command: List[str]) -> List[str]:
    """Return what the second of two containers printed.

    :raises IsolationError: one of them did not start.
    """
    # A name that a shell can read into.
    mark = f"containercheck_{secrets.token_hex(8)}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "universal_newlines": True}
    first = subprocess.Popen([*command, "-c", LEAVE.format(mark=mark)], **pipes)
    try:
        if first.stdout.readline().strip() != "ready":
            raise IsolationError(f"the first container did not start: exit status {first.wait(PATIENCE)}")
        second = subprocess.Popen([*command, "-c", LOOK.format(mark=mark)], **pipes)
        printed, _ = second.communicate(timeout=PATIENCE)
        if second.returncode:
            raise IsolationError(f"the second container ended with exit status {second.returncode}")
        return str(printed).splitlines()
    finally:
        first.communicate("\n", timeout=PATIENCE)


def own_capabilities() -> int:
    """Return the effective capabilities of this process, a bit each."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["CapEff"], 16)


def answers(lines: List[str]) -> Dict[str, str]:
    """Return the answers, by name."""
    told = {}  # type: Dict[str, str]
    namespaces, cgroups = {}, []
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "namespace":
            kind, _, identity = value.partition(" ")
            namespaces[kind] = identity
        elif name == "cgroup":
            cgroups.append(value)
        else:
            told[name] = value
    own = own_capabilities()
    with open("/proc/self/cgroup") as file:
        same = sorted(cgroups) == sorted(file.read().splitlines())
    other = [name for name in NAMESPACES if namespaces.get(name) != os.readlink("/proc/self/ns/" + name)]
    # In a user namespace of its own they are no power over the node.
    more = 0 if "user" in other else int(told.get("effective", "0"), 16) & ~own
    return {
        **{name: told.get(name, "unknown") for name in ("dev_shm", "tmp", "processes")},
        "user": "same" if told.get("uid") == str(os.geteuid()) else "other",
        "more_capabilities": str(bin(more).count("1")),
        "cgroup": "same" if same else "other",
        "namespaces": ",".join(other) or "none",
    }


def main() -> None:
    """Print the answers, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+")
    try:
        for name, answer in answers(look(parser.parse_args().command)).items():
            print(f"shares {name} {answer}")
    except (OSError, IsolationError, subprocess.TimeoutExpired) as error:
        sys.exit(f"isolation.py: error: {error}")


if __name__ == "__main__":
    main()
