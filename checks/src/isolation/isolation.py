"""Find out which parts of each other, and of the node, two containers see (standard library only, Python 3.6).

    python3 isolation.py -- apptainer exec image.sif sh

The command must start a shell. The program starts it twice, as two jobs that share a node. The first container leaves a
file in /dev/shm and one in /tmp, and waits; the second looks for both, and for the first one's process. The program
prints a line for each answer of the second container:

- ``dev_shm``, ``tmp`` and ``processes``: whether it sees those of the first;
- ``user``: whether it runs as the user of this program;
- ``more_capabilities``: number of its capabilities on the node that this user lacks;
- ``cgroup``: whether it is in the cgroup of this process;
- ``namespaces``: those in which it differs from this process;
- ``setuid`` and ``devices``: whether programs of the image may gain privileges, and whether its device files work;
- ``image``: whether it is ``readonly`` or ``writable``;
- ``new_privileges`` and ``seccomp``: whether it may gain some at all, and the kernel's mode of its filter, 0 for none.
"""

import argparse
import os
import secrets
import subprocess
import sys
from typing import Dict, List

#: Seconds within which a container must start and answer.
PATIENCE = 60
#: The first container's commands. The waiting process has the mark in its arguments.
LEAVE = (
    "echo {mark} >/dev/shm/{mark}; echo {mark} >/tmp/{mark}; echo ready; read {mark}; rm -f /dev/shm/{mark} /tmp/{mark}"
)
#: The second container's commands. Two quotes within the pattern keep it from matching these commands themselves.
LOOK = """\
[ -e /dev/shm/{mark} ] && echo dev_shm yes || echo dev_shm no
[ -e /tmp/{mark} ] && echo tmp yes || echo tmp no
seen=no
for file in /proc/[0-9]*/cmdline; do
    case $({{ tr '\\0' ' ' <"$file"; }} 2>/dev/null) in *"echo ready; read"" {mark}"*) seen=yes ;; esac
done
echo processes $seen
echo uid $(id -u)
sed -n -e 's/^CapEff:[^0-9a-f]*/effective /p' -e 's/^NoNewPrivs:[^0-9]*/confined /p' \\
    -e 's/^Seccomp:[^0-9]*/seccomp /p' /proc/self/status
while read -r _ _ _ _ place options more; do
    [ "$place" != / ] || root=$options,${{more##* }}
done </proc/self/mountinfo
echo root "$root"
for name in pid ipc uts net user mnt cgroup; do echo namespace $name $(readlink /proc/self/ns/$name); done
sed 's/^/cgroup /' /proc/self/cgroup
"""
NAMESPACES = ("pid", "ipc", "uts", "net", "user", "mnt", "cgroup")


class IsolationError(Exception):
    """A container did not start or answer."""


def look(command: List[str]) -> List[str]:
    """Start two containers, and return the output of the second one.

    :raises IsolationError: a container did not start.
    """
    # A valid name of a shell variable, for read.
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
    """Return the effective capabilities of this process, one bit for each."""
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
    # In a separate user namespace, capabilities give no power over the node.
    more = 0 if "user" in other else int(told.get("effective", "0"), 16) & ~own
    root, is_confined = told.get("root", "").split(","), told.get("confined") == "1"
    return {
        **{name: told.get(name, "unknown") for name in ("dev_shm", "tmp", "processes")},
        "user": "same" if told.get("uid") == str(os.geteuid()) else "other",
        "more_capabilities": str(bin(more).count("1")),
        "cgroup": "same" if same else "other",
        "namespaces": ",".join(other) or "none",
        "setuid": "no" if is_confined or "nosuid" in root or "user" in other else "yes",
        "devices": "no" if "nodev" in root else "yes",
        "image": "readonly" if "ro" in root else "writable",
        "new_privileges": "no" if is_confined else "yes",
        "seccomp": told.get("seccomp", "unknown"),
    }


def main() -> None:
    """Print one line for each answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+")
    try:
        for name, answer in answers(look(parser.parse_args().command)).items():
            print(f"shares {name} {answer}")
    except (OSError, IsolationError, subprocess.TimeoutExpired) as error:
        sys.exit(f"isolation.py: error: {error}")


if __name__ == "__main__":
    main()
