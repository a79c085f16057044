"""Start a program for a processor newer than this node's (standard library only, Python 3.6).

    python3 newerprocessor.py --elf 62 --end b83c... --instruction avx=c5fc57c0 -- apptainer exec image.sif sh

This script writes a program of one instruction into the working directory. The shell that the command starts runs it.
The instruction is the last given one that this processor lacks, by the kernel's names; every processor lacks the first
one. The script prints the instruction's name, and the exit status of the program: 132 is the signal for an illegal
instruction; 0 means that the instruction was executed.
"""

import argparse
import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Iterable, List, Set

#: Seconds within which a container must start and end.
PATIENCE = 60
NAME = "newer-processor"
#: Address of the program in memory.
_ADDRESS = 0x400000
#: Entry of the auxiliary vector with Power's instruction sets, and the bit of ISA 3.1 (asm/cputable.h).
_AT_HWCAP2, _ARCH_3_1 = 26, 0x00040000
#: Number of Power in the header of a program; its flags there name the ABI, ELFv2.
_POWER, _ELFV2 = 21, 2


def has() -> Set[str]:
    """Return the features of this processor, by the kernel's names."""
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
    """Return the last instruction set that a processor lacks.

    :param names: instruction sets; every processor lacks the first one.
    :param known: features of the processor.
    """
    return [name for name in names if name not in known][-1]


def program(elf: int, code: bytes) -> bytes:
    """Return a program with this code (elf(5)).

    :param elf: number of the architecture in the header.
    """
    start, flags = 64 + 56, _ELFV2 if elf == _POWER else 0
    sizes = (64, 56, 1, 0, 0, 0)
    header = struct.pack("<16sHHIQQQI6H", b"\x7fELF\x02\x01\x01", 2, elf, 1, _ADDRESS + start, 64, 0, flags, *sizes)
    size = start + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x10000) + code


def run(command: List[str], text: bytes) -> int:
    """Write a program into the working directory, run it in a shell, and return its exit status.

    :param command: starts the shell.
    :raises OSError: the program cannot be written, or the command cannot be started.
    :raises subprocess.TimeoutExpired: the command does not end.
    :raises ValueError: the shell did not print the exit status.
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
    """Print the instruction set, and the exit status of the program."""
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
