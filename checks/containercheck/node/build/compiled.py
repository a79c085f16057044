"""Compiles a program of ours into a cache: C++ on top of a library takes a minute, which no job should spend twice.

    python3 checks/containercheck compile --source checks/src/palabos/flow.cpp --option=-O3 --option=-lplb \\
        --header palabos3D.h=libplb-dev --architecture x86_64 --mpi openmpi \\
        --cache ~/.cache/containercheck/programs --link palabos-flow palabos-flow

makes ``palabos-flow`` a link to the program, and prints its path. It is keyed by the content of the source and of what
lies beside it, by the options, the family of MPI and the architecture, and by what the compiler says of its version and
of its MPI. It is compiled again when a header that it was compiled with, of a library or of MPI, has other content.
Libraries that load another family's MPI, as Debian's all load Open MPI, are a reason to skip: with two in one program
nothing that it says is true.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Set, Tuple

from containercheck.node import mpi
from containercheck.node.build import cache
from containercheck.node.build.cache import CacheError, UnsupportedError

#: What all programs of ours are compiled with; options that come later change it.
USUAL = ["-O2", "-Wall"]
#: A line of compiler or linker that says what is wrong; not the one that says that the linker failed.
_TELLING = re.compile(r"^(?!collect2: ).*(?:\berror: |undefined reference to|cannot find -l)")


class Parts(NamedTuple):
    """What a program is made of.

    ``compiler`` is the command, ``options`` are those beside the usual ones, ``headers`` the ones that it cannot do
    without, with the package that Debian has them in, and ``family`` is that of its MPI.
    """

    source: Path
    compiler: str
    options: List[str]
    headers: Dict[str, str]
    family: str


class Program(cache.FileEntry):
    """The program of one source file.

    :param directory: of the cache.
    :param architecture: of the machines that it is for, as ``uname -m`` says it.
    """

    kind, setting = "cache of programs", "program_cache"
    needed_space = 256 << 20
    broken = "corrupt, or older than a header that it was made with"
    doing, done = "compiling", "compiled"

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str) -> None:
        """Find its place in the cache.

        :raises CacheError: there is no such source, or the compiler does not run.
        :raises UnsupportedError: there is no such compiler.
        """
        try:
            beside = sorted(path for path in parts.source.parent.iterdir() if path.is_file())
            content = [(path.name, path.read_bytes()) for path in beside]
            parts.source.read_bytes()
        except OSError as error:
            raise CacheError(f"no source {parts.source}: {error.strerror}") from None
        said = print_by(parts.compiler, name)
        facts = [content, parts.source.name, USUAL, parts.options, parts.family, said]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{architecture}-{key}", architecture)
        self.parts = parts

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether it is the program that was compiled, and whether that was with the headers of today."""
        return super().intact(record) and digest_of_all(record["headers"]) == record["headers_sha256"]

    def prepare(self) -> None:
        """Look for the headers, and for the MPI that the libraries are for.

        :raises UnsupportedError: one is not there, or they are for another family's.
        """
        for header, package in self.parts.headers.items():
            question = f'#if !__has_include("{header}")\n#error absent\n#endif\n'
            command = [self.parts.compiler, *self.parts.options, "-fsyntax-only", "-x", "c++", "-"]
            process = subprocess.run(
                command, input=question.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()
            )
            # Whatever else it has to say, it says when it compiles.
            if b"#error absent" in process.stdout:
                raise UnsupportedError(
                    f"no software: {self.name} is built from source, and {self.parts.compiler} finds no {header}: "
                    f"install {package} where the release has it, or name a program in the site's extras, software"
                )

        family = self.parts.family
        for soname in sorted(self._loaded()):
            if mpi.family_of(soname) not in (None, family):
                raise UnsupportedError(
                    f"no software: the libraries that {self.name} is built on load {mpi.title_of(soname)}, and the "
                    f"partition's MPI is {mpi.FAMILIES[family].title}: name a program in the site's extras, software"
                )

    def _loaded(self) -> Set[str]:
        """Return the names of the libraries that a program with these options loads; none where that is not known."""
        with tempfile.TemporaryDirectory() as directory:
            empty = str(Path(directory) / "empty")
            # Whatever a linker thinks of libraries that nothing is taken from.
            command = [self.parts.compiler, "-o", empty, "-x", "c++", "-", "-x", "none", "-Wl,--no-as-needed"]
            facts: Dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": _environment()}
            linked = subprocess.run([*command, *self.parts.options], input=b"int main() {}\n", **facts)
            if linked.returncode != 0 or shutil.which("ldd") is None:
                return set()
            lines = subprocess.run(["ldd", empty], **facts).stdout.decode(errors="replace").splitlines()
        return {Path(line.split()[0]).name for line in lines if line.strip()}

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Compile and link it.

        :raises CacheError: that fails.
        """
        built, dependencies = work / "program", work / "dependencies"
        command = [self.parts.compiler, *USUAL, "-MD", "-MF", str(dependencies), "-o", str(built)]
        # Libraries come after what uses them.
        command += [str(self.parts.source), *self.parts.options]
        self.run([command], env={**_environment(), "TMPDIR": str(work)})
        headers = self._foreign(dependencies.read_text(errors="replace"))
        return built, {**self.known(built), "headers": headers, "headers_sha256": digest_of_all(headers)}

    def _foreign(self, dependencies: str) -> List[str]:
        """Return the files of a rule for make, without our own: those are in the key, and in any checkout."""
        _, _, names = dependencies.replace("\\\n", " ").partition(": ")
        found = {name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", names)}
        return sorted(name for name in found if Path(name).parent != self.parts.source.parent)

    def last_words(self) -> str:
        """Return the last line of the log that says what is wrong."""
        telling = [line.strip() for line in self.lines() if _TELLING.search(line)]
        return telling[-1] if telling else super().last_words()


def print_by(compiler: str, name: str) -> List[str]:
    """Return what a compiler says of its version, and what an MPI's says that it adds.

    :param name: of the program that is to be compiled.
    :raises UnsupportedError: it is not there.
    :raises CacheError: it does not run.
    """
    said = []
    for option in ("--version", "-show"):
        try:
            process = subprocess.run(
                [compiler, option],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
            )
        except FileNotFoundError:
            raise UnsupportedError(
                f"no software: {name} is built from source, and no {compiler} is on the PATH"
            ) from None
        except OSError as error:
            raise CacheError(f"{compiler} cannot be run: {error.strerror}") from None
        text = process.stdout.decode(errors="replace")
        # Not every compiler knows the second.
        if process.returncode != 0 and option == "--version":
            last = (text.strip().splitlines() or ["it prints nothing"])[-1]
            raise CacheError(f"{compiler} --version fails: {last}")
        said.append(text)
    return said


def digest_of_all(paths: Iterable[str]) -> str:
    """Return the SHA-256 of the content of files, in their order, in hexadecimal.

    :raises OSError: one cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _environment() -> Dict[str, str]:
    # What it says is a part of the key, and is searched for errors.
    return {**os.environ, "LC_ALL": "C"}


def main() -> None:
    """Print the path of the program, or one error; the exit status ``contract.UNSUPPORTED`` is a reason to skip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="file; what lies beside it counts too")
    parser.add_argument("--compiler", default="mpicxx", help="command; by default that of the MPI on the PATH")
    parser.add_argument("--option", action="append", default=[], help="of the compiler, as --option=-lplb")
    parser.add_argument("--header", action="append", default=[], help="header=package of Debian, that it needs")
    parser.add_argument("--architecture", required=True, help="of the partition, as uname -m says it")
    parser.add_argument("--mpi", choices=mpi.FAMILIES, required=True, help="family of the partition's MPI")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the compiled programs")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the program")
    parser.add_argument("name", help="what to call it")
    arguments = parser.parse_args()
    headers = dict(header.split("=", 1) for header in arguments.header)
    parts = Parts(arguments.source.resolve(), arguments.compiler, arguments.option, headers, arguments.mpi)

    def get() -> Path:
        return Program(arguments.name, parts, arguments.cache.resolve(), arguments.architecture).ensure()

    cache.deliver(get, arguments.link)
