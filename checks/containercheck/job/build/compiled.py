"""Compiles a program of this project into a cache: C++ that uses a large library takes a minute to compile.

    python3 checks/containercheck/job compile --source checks/src/palabos/flow.cpp --option=-O3 --option=-lplb \\
        --header palabos3D.h=libplb-dev --architecture x86_64 --mpi openmpi \\
        --cache ~/.cache/containercheck/programs --link palabos-flow palabos-flow

makes ``palabos-flow`` a link to the program, and prints its path. The key of the program is a digest of the source and
of the files beside it, of the options, the family of MPI and the architecture, and of what the compiler prints about
its version and its MPI. The program is compiled again when a header that it includes, of a library or of MPI, has
changed. Libraries that load another family's MPI, as Debian's all load Open MPI, are a reason to skip: the results of a
program with two MPI libraries mean nothing.

Standard library only, Python 3.6 or newer.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Set, Tuple

from containercheck.job import mpi
from containercheck.job.build import cache
from containercheck.job.build.cache import CacheError, UnsupportedError

#: Options that all programs of this project are compiled with; later options override them.
USUAL = ["-O2", "-Wall"]
#: Line of a compiler or linker that says what is wrong; not the one that says that the linker failed.
_TELLING = re.compile(r"^(?!collect2: ).*(?:\berror: |undefined reference to|cannot find -l)")

#: Line of a compiler that finds no header.
_ABSENT = re.compile(r"fatal error: '?([^:']+)'?(?:: No such file or directory| file not found)")


class Parts(NamedTuple):
    """The source of a program, and how it is compiled.

    ``compiler`` is the command, ``options`` are the options besides the usual ones, ``headers`` the headers that the
    source needs, with the Debian package of each, and ``family`` is the family of MPI.
    """

    source: Path
    compiler: str
    options: List[str]
    headers: Dict[str, str]
    family: str


class Program(cache.Entry):
    """The program of one source file.

    :param directory: directory of the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it.
    """

    kind, setting = "cache of programs", "program_cache"
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
        compiler = compiler_facts(parts.compiler, name)
        key = cache.key_of(content, parts.source.name, USUAL, parts.options, parts.family, compiler)
        super().__init__(name, directory / f"{name}-{architecture}-{key}", architecture)
        self.parts = parts

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the program is as it was compiled, and its headers have not changed since."""
        return super().intact(record) and digest_of_all(record["headers"]) == record["headers_sha256"]

    def prepare(self) -> None:
        """Check that the libraries load the MPI of the partition.

        :raises UnsupportedError: a library loads another family's MPI.
        """
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
            status, _ = _asked([*command, *self.parts.options], "int main() {}\n")
            if status != 0 or shutil.which("ldd") is None:
                return set()
            lines = _asked(["ldd", empty])[1].splitlines()
        return {Path(line.split()[0]).name for line in lines if line.strip()}

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Compile and link the program.

        :raises UnsupportedError: a header of a library is missing.
        :raises CacheError: the compiler or the linker fails.
        """
        built, dependencies = work / "program", work / "dependencies"
        command = [self.parts.compiler, *USUAL, "-MD", "-MF", str(dependencies), "-o", str(built)]
        # Libraries come after the source that uses them.
        command += [str(self.parts.source), *self.parts.options]
        try:
            self.run([command], env={**os.environ, "LC_ALL": "C", "TMPDIR": str(work)})
        except CacheError:
            absent = next(filter(None, map(_ABSENT.search, self.lines())), None)
            if absent and absent[1] in self.parts.headers:
                raise UnsupportedError(
                    f"no software: {self.name} is built from source, and {self.parts.compiler} finds no {absent[1]}: "
                    f"install {self.parts.headers[absent[1]]} where the release has it, or name a program in the "
                    "site's extras, software"
                ) from None
            raise
        headers = self._library_headers(dependencies.read_text(errors="replace"))
        return built, {**self.content_of(built), "headers": headers, "headers_sha256": digest_of_all(headers)}

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
    try:
        # Not every compiler knows -show.
        (status, version), (_, show) = (_asked([compiler, option]) for option in ("--version", "-show"))
    except FileNotFoundError:
        raise UnsupportedError(
            f"no software: {name} is built from source, and no {compiler} is on the PATH: install it, or load its "
            "module: modules of the site's environment"
        ) from None
    except OSError as error:
        raise CacheError(f"{compiler} cannot be run: {error.strerror}") from None
    if status != 0:
        last = (version.strip().splitlines() or ["it prints nothing"])[-1]
        raise CacheError(f"{compiler} --version fails: {last}")
    return [version, show]


def _asked(words: List[str], text: str = "") -> Tuple[int, str]:
    """Return exit status and output of a command that gets a text as input."""
    # The output is a part of the key, and is searched for English messages.
    process = subprocess.run(
        words,
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
    )
    return process.returncode, process.stdout.decode(errors="replace")


def digest_of_all(paths: Iterable[str]) -> str:
    """Return the SHA-256 of the content of files, in the given order, in hexadecimal.

    :raises OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def main() -> None:
    """Print the path of the program, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = cache.parser(__doc__)
    parser.add_argument("--source", type=Path, required=True, help="source file; the files beside it count too")
    parser.add_argument("--compiler", default="mpicxx", help="command of the compiler (%(default)s)")
    parser.add_argument("--option", action="append", default=[], help="option of the compiler, as --option=-lplb")
    parser.add_argument(
        "--header", action="append", default=[], help="header that the source needs, as header=Debian package"
    )
    parser.add_argument("--mpi", choices=mpi.FAMILIES, required=True, help="family of the partition's MPI")
    parser.add_argument("name", help="name of the program")
    arguments = parser.parse_args()
    headers = dict(header.split("=", 1) for header in arguments.header)
    parts = Parts(arguments.source.resolve(), arguments.compiler, arguments.option, headers, arguments.mpi)

    def get() -> Path:
        return Program(arguments.name, parts, arguments.cache, arguments.architecture).ensure()

    cache.deliver(get, arguments.link)
