"""Writes down what a container sees around it (standard library only, Python 3.6 or newer; run in the job).

    apptainer exec ... sh -c 'env -0; ...' | python3 checks/containercheck surroundings subject

takes what the container prints (``commands.SURROUNDINGS``) and writes ``subject.surroundings``: each variable on a line
of its own, with its value where that may be told, else a fingerprint (node/variables.py); then mounts and limits as
they are. Whole environments never reach the disk.
"""

import argparse
import os
import sys
from pathlib import Path

from containercheck.node import contract, texts, variables

#: Bytes that a container may say of what it sees.
MOST = 16 << 20


def cleaned(text: str, key: bytes) -> str:
    """Return what a container printed as it may be kept.

    :param text: variables, each with a NUL at its end; a line end, mounts, a blank line, and limits.
    """
    environment, _, rest = text.rpartition("\0")
    pairs = (one.partition("=") for one in environment.split("\0") if "=" in one)
    lines = [f"{texts.printable(name)}={variables.redacted(name, value, key)}" for name, _, value in pairs]
    others = [texts.printable(texts.without_credentials(line), 4096) for line in rest.splitlines()]
    return "\n".join([*lines, *others]) + "\n"


def main() -> None:
    """Read standard input, and write the file of a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side")
    arguments = parser.parse_args()
    # What is not read any more ends who prints it (SIGPIPE).
    text = os.fsdecode(sys.stdin.buffer.read(MOST))
    key = variables.key_of(Path(contract.KEY))
    variables.write_private(Path(contract.surroundings_file(arguments.side)), cleaned(text, key))
