"""Compile a program of this project into a cache: C++ that uses a large library takes a minute to compile.

The key of the program is a digest of the source and the files next to it. It also covers the options, the family of
MPI, the architecture, and the compiler's output about its version and its MPI. A check skips if the libraries load an
MPI of another family (all of Debian's load Open MPI): the results of a program with two MPI libraries mean nothing.

Standard library only, Python 3.6 or newer.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from containercheck.job import mpi, processes
from containercheck.job.build import cache
from containercheck.job.build.cache import CacheError, UnsupportedError

#: Options that all programs of this project are compiled with; later options override them.
USUAL = ["-O2", "-Wall"]
#: Line of a compiler or linker that names an error, except the compiler's line about a failed linker.
_TELLING = re.compile(r"^(?!collect2: ).*(?:\berror: |undefined reference to|cannot find -l)")
#: Line of a compiler that finds no header.
_ABSENT = re.compile(r"fatal error: '?([^:']+)'?(?:: No such file or directory| file not found)")


class Program(cache.Entry):
    """Compile the program of one source file.

    :param directory: directory of the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it.
    :param source: source file; the files next to it count too.
    :param family: family of the partition's MPI.
    :param compiler: command of the compiler.
    :param options: options besides the usual ones.
    :param headers: headers that the source needs, with the Debian package of each.
    """

    kind, folder = "cache of programs", "programs"
    doing, done = "compiling", "compiled"

    def __init__(
        self,
        name: str,
        directory: cache.AnyPath,
        architecture: str,
        source: cache.AnyPath,
        family: str,
        compiler: str = "mpicxx",
        options: Sequence[str] = (),
        headers: Optional[Dict[str, str]] = None,
    ) -> None:
        """Determine the path in the cache.

        :raises CacheError: the compiler does not run.
        :raises OSError: there is no such source.
        :raises UnsupportedError: there is no such compiler.
        """
        self.source, self.family, self.compiler = Path(source).resolve(), family, compiler
        self.options, self.headers = list(options), headers or {}
        beside = sorted(path for path in self.source.parent.iterdir() if path.is_file())
        content = [(path.name, path.read_bytes()) for path in beside]
        key = cache.key_of(content, self.source.name, USUAL, self.options, family, compiler_facts(compiler, name))
        super().__init__(name, directory, f"{name}-{architecture}-{key}", architecture)

    def prepare(self) -> None:
        """Check that the libraries load the MPI of the partition.

        :raises UnsupportedError: a library loads another family's MPI.
        """
        for soname in sorted(self._loaded_libraries()):
            if mpi.family_of(soname) not in (None, self.family):
                title = mpi.FAMILIES[self.family].title
                raise UnsupportedError(
                    f"no software: the libraries that {self.name} is built on load {mpi.title_of(soname)}, and the "
                    f"partition's MPI is {title}: name a program in the site's extras, software"
                )

    def _loaded_libraries(self) -> Set[str]:
        """Return the names of the libraries that a program with these options loads; none if that is unknown."""
        with tempfile.TemporaryDirectory() as directory:
            empty, source = str(Path(directory) / "empty"), Path(directory) / "empty.cpp"
            source.write_text("int main() {}\n")
            # Linkers may drop libraries that the program takes nothing from.
            status, _ = _asked([self.compiler, "-o", empty, str(source), "-Wl,--no-as-needed", *self.options])
            lines = _asked(["ldd", empty])[1].splitlines() if status == 0 else []
        return {Path(line.split()[0]).name for line in lines if line.strip()}

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Compile and link the program.

        :raises UnsupportedError: a header of a library is missing.
        :raises CacheError: the compiler or the linker fails.
        """
        built = work / "program"
        # Libraries come after the source that uses them.
        command = [self.compiler, *USUAL, "-o", str(built), str(self.source), *self.options]
        try:
            self.run([command], env={**os.environ, "LC_ALL": "C", "TMPDIR": str(work)})
        except CacheError:
            absent = next(filter(None, map(_ABSENT.search, self.lines())), None)
            if absent and absent[1] in self.headers:
                raise UnsupportedError(
                    f"no software: {self.name} is built from source, and {self.compiler} finds no {absent[1]}: "
                    f"install {self.headers[absent[1]]} if the release has it, or name a program in the "
                    "site's extras, software"
                ) from None
            raise
        return built, self.content_of(built)

    def last_words(self) -> str:
        """Return the last line of the log that names an error."""
        telling = [line.strip() for line in self.lines() if _TELLING.search(line)]
        return telling[-1] if telling else super().last_words()


def compiler_facts(compiler: str, name: str) -> List[str]:
    """Return the output of a compiler about its version, and that of MPI's wrapper about the options that it adds.

    :param name: name of the program that is to be compiled, for messages.
    :raises UnsupportedError: the compiler is not on the PATH.
    :raises CacheError: the compiler does not run.
    """
    if shutil.which(compiler) is None:
        raise UnsupportedError(
            f"no software: {name} is built from source, and no {compiler} is on the PATH: install it, or load its "
            "module: modules of the site's environment"
        )
    # Not every compiler knows -show.
    (status, version), (_, show) = (_asked([compiler, option]) for option in ("--version", "-show"))
    if status != 0:
        last = (version.strip().splitlines() or ["it prints nothing"])[-1]
        raise CacheError(f"{compiler} --version fails: {last}")
    return [version, show]


def _asked(words: List[str]) -> Tuple[Optional[int], str]:
    """Return exit status and output of a command; the output is a part of the key, and English."""
    return processes.answer_of(words, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"})
