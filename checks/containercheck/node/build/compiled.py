"""Compiles a program of this project into a cache: C++ that uses a large library takes a minute to compile.

    python3 checks/containercheck compile --source checks/src/palabos/flow.cpp --option=-O3 --option=-lplb \\
        --header palabos3D.h=libplb-dev --architecture x86_64 --mpi openmpi \\
        --cache ~/.cache/containercheck/programs --link palabos-flow palabos-flow

makes ``palabos-flow`` a link to the program, and prints its path. The key of the program is a digest of the source and
of the files beside it, of the options, the family of MPI and the architecture, and of what the compiler prints about
its version and its MPI. The program is compiled again when a header that it includes, of a library or of MPI, has
changed. Libraries that load another family's MPI, as Debian's all load Open MPI, are a reason to skip: the results of a
program with two MPI libraries mean nothing.

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

#: Options that all programs of this project are compiled with; later options override them.
USUAL = ["-O2", "-Wall"]
#: Line of a compiler or linker that says what is wrong; not the one that says that the linker failed.
_TELLING = re.compile(r"^(?!collect2: ).*(?:\berror: |undefined reference to|cannot find -l)")


class Parts(NamedTuple):
    """The source of a program, and how it is compiled.

    ``compiler`` is the command, ``options`` are those beside the usual ones, ``headers`` the headers that the source
    needs, with the Debian package of each, and ``family`` is the family of MPI.
    """

    source: Path
    compiler: str
    options: List[str]
    headers: Dict[str, str]
    family: str


class Program(cache.FileEntry):
    """The program of one source file.

    :param directory: directory of the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it.
    """

    kind, setting = "cache of programs", "program_cache"
    needed_space = 256 << 20
    broken = "corrupt, or older than a header that it was made with"
    doing, done = "compiling", "compiled"

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: there is no such source, or the compiler does not run.
        :raises UnsupportedError: there is no such compiler.
        """
        try:
            beside = sorted(path for path in parts.source.parent.iterdir() if path.is_file())
            content = [(path.name, path.read_bytes()) for path in beside]
            parts.source.read_bytes()
        except OSError as error:
            raise CacheError(f"no source {parts.source}: {error.strerror}") from None
        facts = [content, parts.source.name, USUAL, parts.options, parts.family, compiler_facts(parts.compiler, name)]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{architecture}-{key}", architecture)
        self.parts = parts

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the program is as it was compiled, and its headers have not changed since."""
        return super().intact(record) and digest_of_all(record["headers"]) == record["headers_sha256"]

    def prepare(self) -> None:
        """Check that the headers are there, and that the libraries load the MPI of the partition.

        :raises UnsupportedError: a header is missing, or a library loads another family's MPI.
        """
        for header, package in self.parts.headers.items():
            question = f'#if !__has_include("{header}")\n#error absent\n#endif\n'
            command = [self.parts.compiler, *self.parts.options, "-fsyntax-only", "-x", "c++", "-"]
            process = subprocess.run(
                command, input=question.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()
            )
            # Other errors appear again when the source is compiled.
            if b"#error absent" in process.stdout:
                raise UnsupportedError(
                    f"no software: {self.name} is built from source, and {self.parts.compiler} finds no {header}: "
                    f"install {package} where the release has it, or name a program in the site's extras, software"
                )

        family = self.parts.family
        for soname in sorted(self._loaded_libraries()):
            if mpi.family_of(soname) not in (None, family):
                raise UnsupportedError(
                    f"no software: the libraries that {self.name} is built on load {mpi.title_of(soname)}, and the "
                    f"partition's MPI is {mpi.FAMILIES[family].title}: name a program in the site's extras, software"
                )

    def _loaded_libraries(self) -> Set[str]:
        """Return the names of the libraries that a program with these options loads; none where that is unknown."""
        with tempfile.TemporaryDirectory() as directory:
            empty = str(Path(directory) / "empty")
            # Linkers may drop libraries that the program takes nothing from.
            command = [self.parts.compiler, "-o", empty, "-x", "c++", "-", "-x", "none", "-Wl,--no-as-needed"]
            quiet: Dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": _environment()}
            linked = subprocess.run([*command, *self.parts.options], input=b"int main() {}\n", **quiet)
            if linked.returncode != 0 or shutil.which("ldd") is None:
                return set()
            lines = subprocess.run(["ldd", empty], **quiet).stdout.decode(errors="replace").splitlines()
        return {Path(line.split()[0]).name for line in lines if line.strip()}

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Compile and link the program.

        :raises CacheError: the compiler or the linker fails.
        """
        built, dependencies = work / "program", work / "dependencies"
        command = [self.parts.compiler, *USUAL, "-MD", "-MF", str(dependencies), "-o", str(built)]
        # Libraries come after the source that uses them.
        command += [str(self.parts.source), *self.parts.options]
        self.run([command], env={**_environment(), "TMPDIR": str(work)})
        headers = self._library_headers(dependencies.read_text(errors="replace"))
        return built, {**self.known(built), "headers": headers, "headers_sha256": digest_of_all(headers)}

    def _library_headers(self, dependencies: str) -> List[str]:
        """Return the files that a rule for make names, without those beside the source, which the key covers."""
        _, _, names = dependencies.replace("\\\n", " ").partition(": ")
        headers = {name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", names)}
        return sorted(name for name in headers if Path(name).parent != self.parts.source.parent)

    def last_words(self) -> str:
        """Return the last line of the log that says what is wrong."""
        telling = [line.strip() for line in self.lines() if _TELLING.search(line)]
        return telling[-1] if telling else super().last_words()


def compiler_facts(compiler: str, name: str) -> List[str]:
    """Return the output of a compiler about its version, and that of MPI's wrapper about the options that it adds.

    :param name: name of the program that is to be compiled, for messages.
    :raises UnsupportedError: the compiler is not on the PATH.
    :raises CacheError: the compiler does not run.
    """
    outputs = []
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
                f"no software: {name} is built from source, and no {compiler} is on the PATH: install it, or load its "
                "module: modules of the site's environment"
            ) from None
        except OSError as error:
            raise CacheError(f"{compiler} cannot be run: {error.strerror}") from None
        output = process.stdout.decode(errors="replace")
        # Not every compiler knows -show.
        if process.returncode != 0 and option == "--version":
            last = (output.strip().splitlines() or ["it prints nothing"])[-1]
            raise CacheError(f"{compiler} --version fails: {last}")
        outputs.append(output)
    return outputs


def digest_of_all(paths: Iterable[str]) -> str:
    """Return the SHA-256 of the content of files, in the given order, in hexadecimal.

    :raises OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _environment() -> Dict[str, str]:
    # The compiler's output is a part of the key, and is searched for English messages.
    return {**os.environ, "LC_ALL": "C"}


def main() -> None:
    """Print the path of the program, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="source file; the files beside it count too")
    parser.add_argument("--compiler", default="mpicxx", help="command of the compiler (%(default)s)")
    parser.add_argument("--option", action="append", default=[], help="option of the compiler, as --option=-lplb")
    parser.add_argument(
        "--header", action="append", default=[], help="header that the source needs, as header=Debian package"
    )
    parser.add_argument("--architecture", required=True, help="architecture of the partition, as uname -m prints it")
    parser.add_argument("--mpi", choices=mpi.FAMILIES, required=True, help="family of the partition's MPI")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the compiled programs")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the program")
    parser.add_argument("name", help="name of the program")
    arguments = parser.parse_args()
    headers = dict(header.split("=", 1) for header in arguments.header)
    parts = Parts(arguments.source.resolve(), arguments.compiler, arguments.option, headers, arguments.mpi)

    def get() -> Path:
        return Program(arguments.name, parts, arguments.cache.resolve(), arguments.architecture).ensure()

    cache.deliver(get, arguments.link)
