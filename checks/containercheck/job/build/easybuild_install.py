"""Install an easyconfig and its dependencies into a cache with EasyBuild.

The entry is a directory with the module of that easyconfig. The dependencies are installed into one tree of the cache
for each target, which all easyconfigs share: a name and a version identify a module there. ``dependencies`` in the
directory is a link to that tree. The key of the directory is a digest of the easyconfig's name and content, EasyBuild's
version, the site's configuration file and the target. So a changed easyconfig disturbs no running job.

Standard library only, Python 3.6 or newer.
"""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from containercheck.job import contract, locks, texts
from containercheck.job.build import cache, file_trees, packing
from containercheck.job.build.cache import CacheError
from containercheck.job.build.packing import UnpackableError

#: Line of EasyBuild's dry run: whether the module is installed, the easyconfig, and the module.
_PLANNED = re.compile(r"^ \* \[([ xFR])\] (\S.*) \(module: (\S+)\)$")
#: Line of a module, in Lua or Tcl, that loads another one.
_LOADS = re.compile(r"""^\s*(?:module load|depends-on|load\(|depends_on\()\s*["']?([^\s"')]+)""", re.MULTILINE)
#: Line of EasyBuild that reports an error.
_ERROR = re.compile(r"^(?:== .*?)?ERROR:? *(\S.*)")
#: Line of EasyBuild that names the file with the output of a failed command.
_OUTPUT = re.compile(r"^ *output \(.*\) +-> +(/.*)$", re.MULTILINE)
#: Lines of that output with the reason of the failure: a reported error or, if there is none, a mentioned one.
_TELLING = tuple(re.compile(words, re.I) for words in (r"\berror:|undefined reference|cannot find -l", r"\berror\b"))


class Module(packing.Tree):
    """Install the software of an easyconfig, and its module.

    :param directory: directory of the cache.
    :param target: processor that it is compiled for, one of archspec's names.
    :param easyconfig: file, or the name of one that EasyBuild has.
    :param program: program that must be installed.
    :param command: command of EasyBuild.
    :param robot: directories that EasyBuild searches before its own.
    :param site_file: the site's configuration file, if it has one.
    :param compiled_for: value of EasyBuild's ``--optarch``; empty for this machine's processor.
    """

    kind, folder = "cache of EasyBuild's software", "easybuilds"
    broken = "not complete"
    doing, done = "installing", "installed"

    def __init__(
        self,
        name: str,
        directory: cache.AnyPath,
        architecture: str,
        target: str,
        easyconfig: str,
        program: str,
        command: str = "eb",
        robot: Sequence[str] = (),
        site_file: Optional[str] = None,
        compiled_for: str = "",
    ) -> None:
        """Determine the path in the cache.

        :raises CacheError: EasyBuild does not run.
        :raises OSError: a file cannot be read.
        """
        self.easyconfig, self.program, self.command = easyconfig, program, command
        self.robot, self.site, self.compiled_for = robot, site_file, compiled_for
        # EasyBuild prints the name of the machine too.
        version = re.sub(r" on host \S+$", "", cache.version_of("EasyBuild", command, name))
        # A name without a directory is that of an easyconfig of EasyBuild's own.
        files = (easyconfig if os.sep in easyconfig else None, site_file)
        contents = [texts.utf8(Path(path)) if path else "" for path in files]
        self.key = f"{target}-{cache.key_of(Path(easyconfig).name, contents, compiled_for, version)}"
        super().__init__(name, directory, f"{name}-{self.key}", architecture)
        self._processor = target

    @property
    def tree(self) -> Path:
        """Return the tree of dependencies, which all easyconfigs of the target share."""
        return self.path.parent / f"tree-{self._processor}"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether the module and the program are still there."""
        installed = [self.path / record[name] for name in ("modulefile", "program")]
        file_trees.require_all(self.path, installed)
        return all(path.is_file() for path in installed)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install the easyconfig at its final path, because the module has that path in it.

        :raises CacheError: EasyBuild fails, or the program is not among the installed files.
        """
        waiting = f"{self.name}: another process is installing its dependencies"
        with locks.flocked(self.path.parent / f"{self.tree.name}.lock", shared=False, waiting=waiting):
            *dependencies, (_, _, module) = self._plan(work)
            missing = [easyconfig for installed, easyconfig, _ in dependencies if installed != "x"]
            if missing:
                self._install(work, self.tree, missing)
        self._install(work, self.path, [self.easyconfig])
        (self.path / contract.EASYBUILD_DEPENDENCIES).symlink_to(self.tree)
        return self.path, self._record_of(module)

    def _plan(self, work: Path) -> List[Tuple[str, str, str]]:
        """Return whether it is installed, the easyconfig and the module for each step of the installation, in order.

        :raises CacheError: EasyBuild finds no easyconfig for a dependency, or its output cannot be read.
        """
        self._run(work, [*self._options(work, self.tree), "--dry-run", self.easyconfig])
        steps = [(match[1], match[2], match[3]) for match in map(_PLANNED.match, self.lines()) if match]
        if not steps:
            raise CacheError(self.failed(f"{self.command} --dry-run names no module"))
        return steps

    def _install(self, work: Path, prefix: Path, easyconfigs: List[str]) -> None:
        """Install easyconfigs into a prefix."""
        # EasyBuild's own locks outlive a killed build. The locks of this cache, which are held here, do not.
        self._run(work, [*self._options(work, prefix), "--ignore-locks", *easyconfigs])

    def _options(self, work: Path, prefix: Path) -> List[str]:
        """Return the options of EasyBuild."""
        # The colon at the end keeps EasyBuild's own directories.
        words = ["--robot=" + "".join(f"{path}:" for path in self.robot)] if self.robot else ["--robot"]
        words += [f"--installpath={prefix}", "--module-naming-scheme=EasyBuildMNS"]
        words += [f"--buildpath={work / 'build'}", f"--tmpdir={work / 'tmp'}"]
        words += [f"--configfiles={self.site}"] if self.site else []
        words += [f"--optarch={self.compiled_for}"] if self.compiled_for else []
        return words

    def _run(self, work: Path, words: List[str]) -> None:
        """Run EasyBuild in an empty directory, because it reads easyconfigs in and below its working directory.

        It finds the modules of the tree and prints English messages. It does not break their lines: if Rich is
        installed, it does so at 80 columns.
        """
        for name in ("empty", "tmp"):
            (work / name).mkdir(exist_ok=True)
        paths = [str(self.tree / contract.EASYBUILD_MODULES), os.environ.get("MODULEPATH", "")]
        environment = {**os.environ, "LC_ALL": "C", "COLUMNS": "4000", "MODULEPATH": ":".join(filter(None, paths))}
        if self.site is None:
            environment.setdefault("EASYBUILD_SOURCEPATH", str(self.path.parent / "sources"))
        self.run([[self.command, *words]], cwd=str(work / "empty"), env=environment)

    def _record_of(self, module: str) -> Dict[str, Any]:
        """Return the record of a module that was just installed.

        :raises CacheError: there is no module file, or no such program.
        """
        software, modules = self.path / "software" / module, self.path / contract.EASYBUILD_MODULES
        names = [name for name in (f"{module}.lua", module) if (modules / name).is_file()]
        programs = [path for path in software.rglob(Path(self.program).name) if os.access(str(path), os.X_OK)]
        programs = sorted((path for path in programs if path.is_file()), key=lambda path: len(path.parts))
        if not names:
            raise CacheError(self.failed(f"EasyBuild ended without an error, and there is no module {module}"))
        if not programs:
            raise CacheError(self.failed(f"{module} has no {self.program}"))
        return {
            "module": module,
            "modulefile": f"{contract.EASYBUILD_MODULES}/{names[0]}",
            "program": str(programs[0].relative_to(self.path)),
            "bytes": file_trees.size_of(self.path),
        }

    def program_path(self) -> str:
        """Return the path of the program below the directory of the module's software.

        :raises CacheError: the record has been removed.
        """
        record = self.read_record()
        return str(Path(record["program"]).relative_to(Path("software", record["module"])))

    def directories(self) -> Dict[str, str]:
        """Return the software of the module and of those that it loads, without MPI and the system's own.

        :raises UnpackableError: it loads a module of the site's own.
        :raises CacheError: the record has been removed.
        """
        record = self.read_record()
        own = self.path / "software" / record["module"]
        names, todo, seen = {str(own): packing.VIEW}, [self.path / record["modulefile"]], {record["module"]}
        while todo:
            text = todo.pop().read_text(errors="replace")
            for module in (match[1] for match in _LOADS.finditer(text) if match[1] not in seen):
                seen.add(module)
                paths = [self.tree / contract.EASYBUILD_MODULES / name for name in (f"{module}.lua", module)]
                found = [path for path in paths if path.is_file()]
                if not found:
                    raise UnpackableError(
                        f"no image can have the module {module}, which is the site's own and {record['module']} loads\n"
                        "leave it to EasyBuild, or name a ready image in the site's extras, images"
                    )
                todo += found[:1]
                software = self.tree / "software" / module
                if software.is_dir() and not any(software.glob("lib*/libmpi*.so*")):
                    names[str(software)] = module.replace("/", "-")
        return names

    def facts(self) -> Dict[str, Any]:
        """Return the installed module, and the SHA-256 of the easyconfig that EasyBuild keeps next to the software.

        :raises CacheError: the record has been removed.
        """
        module = self.read_record()["module"]
        kept = sorted((self.path / "software" / module / "easybuild").glob("*.eb"))
        digest = file_trees.digest_of(kept[0]) if kept else ""
        return {"module": module, "easyconfig": Path(self.easyconfig).name, "sha256": digest}

    def last_words(self) -> str:
        """Return the line with the reason of EasyBuild's failure: from the failed command's output, if there is any."""
        text = "\n".join(self.lines())
        # The files are removed together with the build directory.
        output = "".join(texts.tail(Path(path), cache.MAX_BYTES) for path in _OUTPUT.findall(text))
        with self.open_log.open("a") as stream:
            stream.write(output)
        for pattern in _TELLING:
            telling = next(filter(pattern.search, output.splitlines()), None)
            if telling:
                return telling.strip()
        errors = [match.group(1).strip() for match in map(_ERROR.match, text.splitlines()) if match]
        return errors[-1] if errors else super().last_words()
