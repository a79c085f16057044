"""Starts a program for a processor newer than this node's (standard library only, Python 3.6).

    python3 newerprocessor.py --elf 62 --end b83c... --instruction avx=c5fc57c0 -- apptainer exec image.sif sh

writes the program, which executes one instruction and ends, into this directory, and has the shell that the command
starts run it. The instruction is the last of those given that this processor lacks, by the kernel's names; the first
is one that every processor lacks. Prints which it was, and with which exit status the program ended: 132 is the signal
for an illegal instruction, 0 an end as if the processor had it.
"""

import argparse
import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Iterable, List, Set

#: Seconds that a container has to start and to end.
PATIENCE = 60
NAME = "newer-processor"
#: Place of a program in its memory.
_ADDRESS = 0x400000
#: Where the kernel tells instruction sets of Power, and what it calls one of them (asm/cputable.h).
_AT_HWCAP2, _ARCH_3_1 = 26, 0x00040000
#: Number of Power in a program, which says there that its functions have a table of contents (ELFv2).
_POWER, _ELFV2 = 21, 2


def has() -> Set[str]:
    """Return what this processor has, by the kernel's names."""
    names: Set[str] = set()
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            names.update(value.split())
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    if getauxval(_AT_HWCAP2) & _ARCH_3_1:
        names.add("arch_3_1")
    return names


def lacking(names: Iterable[str], known: Set[str]) -> str:
    """Return the last of some instruction sets that a processor lacks.

    :param names: the first is one that every processor lacks.
    :param known: those that it has.
    """
    return [name for name in names if name not in known][-1]


def program(elf: int, code: bytes) -> bytes:
    """Return a program with some code (elf(5)).

    :param elf: number of the architecture.
    """
    start, flags = 64 + 56, _ELFV2 if elf == _POWER else 0
    sizes = (64, 56, 1, 0, 0, 0)
    header = struct.pack("<16sHHIQQQI6H", b"\x7fELF\x02\x01\x01", 2, elf, 1, _ADDRESS + start, 64, 0, flags, *sizes)
    size = start + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x10000) + code


def run(command: List[str], text: bytes) -> int:
    """Write a program into this directory, and return the exit status that a shell there tells of it.

    :param command: starts the shell.
    :raises OSError: the program cannot be written, or the command not be started.
    :raises subprocess.TimeoutExpired: the command does not end.
    :raises ValueError: the shell did not tell.
    """
    path = Path(NAME)
    path.write_bytes(text)
    path.chmod(0o755)
    words = [*command, "-c", f"./{NAME}; echo ended $?"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE)
    said = [line for line in os.fsdecode(done.stdout).splitlines() if line.startswith("ended ")]
    if not said:
        raise ValueError(f"the shell did not start: exit status {done.returncode}")
    return int(said[-1].split()[1])


def main() -> None:
    """Print the instruction set, and how the program ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elf", type=int, required=True, help="number of the architecture in a program")
    parser.add_argument("--end", type=bytes.fromhex, required=True, help="code that ends a program, in hexadecimal")
    parser.add_argument("--instruction", action="append", required=True, metavar="NAME=CODE", help="oldest first")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    codes = dict(each.split("=", 1) for each in options.instruction)
    name = lacking(codes, has())
    try:
        status = run(options.command, program(options.elf, bytes.fromhex(codes[name]) + options.end))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        sys.exit(f"newerprocessor.py: error: {error}")
    print("lacking", name)
    print("status", status)


if __name__ == "__main__":
    main()
