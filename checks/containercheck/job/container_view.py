"""Record what a container sees: variables, mounts, limits (standard library only, Python 3.6 or newer; in the job).

    apptainer exec ... sh -c 'env -0; ...' | python3 checks/containercheck surroundings subject

reads what the container prints (``commands.SURROUNDINGS``) and writes ``subject.surroundings``: each variable on a line
of its own, with its value if that may be published, else a fingerprint (job/variables.py); then mounts and limits as
they are. Whole environments never reach the disk.
"""

import argparse
import os
import sys
from pathlib import Path

from containercheck.job import contract, texts, variables

#: Most bytes of a container's output that are read.
MOST = 16 << 20


def cleaned(text: str, key: bytes) -> str:
    """Return the output of a container without secrets.

    :param text: variables, each ended by NUL; then a line end, mounts, a blank line, and limits.
    """
    environment, _, rest = text.rpartition("\0")
    pairs = (entry.partition("=") for entry in environment.split("\0") if "=" in entry)
    lines = [f"{texts.printable(name)}={variables.redacted(name, value, key)}" for name, _, value in pairs]
    others = [texts.printable(texts.without_credentials(line), 4096) for line in rest.splitlines()]
    return "\n".join([*lines, *others]) + "\n"


def main() -> None:
    """Read standard input, and write the file of a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side")
    arguments = parser.parse_args()
    # A container that prints more is ended by SIGPIPE.
    text = os.fsdecode(sys.stdin.buffer.read(MOST))
    key = variables.key_of(Path(contract.KEY))
    variables.write_private(Path(contract.surroundings_file(arguments.side)), cleaned(text, key))
