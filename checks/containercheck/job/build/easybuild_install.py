"""Installs an easyconfig and its dependencies into a cache with EasyBuild.

    python3 checks/containercheck/job easybuild --easyconfig easyconfigs/HPCC-1.5.0-gompi-system.eb --target zen4 \\
        --architecture x86_64 --cache ~/.cache/containercheck/easybuilds --link easybuild --program hpcc HPCC

makes ``easybuild`` a link to a directory with the module of that easyconfig, and prints its path. The dependencies are
installed into one tree of the cache for each target, which all easyconfigs share: a name and a version identify a
module there. ``easybuild/dependencies`` is a link to that tree. The key of the easyconfig's own directory is a digest
of its content, of EasyBuild's version, of the site's configuration file and of the target, so that a changed easyconfig
disturbs no running job.

Standard library only, Python 3.6 or newer.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from containercheck.job import contract, locks, texts
from containercheck.job.build import cache, file_trees
from containercheck.job.build.cache import CacheError

#: Line of EasyBuild's dry run: whether the module is installed, the easyconfig, and the module.
_PLANNED = re.compile(r"^ \* \[([ xFR])\] (\S.*) \(module: (\S+)\)$")
#: Line of EasyBuild that reports an error.
_ERROR = re.compile(r"^(?:== .*?)?ERROR:? *(\S.*)")
#: Line of EasyBuild that names the file with the output of a failed command.
_OUTPUT = re.compile(r"^ *output \(.*\) +-> +(/.*)$", re.MULTILINE)
#: Lines of that output that say why the command failed: a reported error or, where there is none, a mentioned one.
_TELLING = tuple(re.compile(pattern, re.I) for pattern in (r"\berror:|undefined reference", r"\berror\b"))


class Parts(NamedTuple):
    """An easyconfig, and how EasyBuild installs it.

    ``easyconfig`` is a file, or the name of one that EasyBuild has; ``robot`` are the directories that EasyBuild
    searches before its own; ``site`` is the site's configuration file, if it has one; ``compiled_for`` the value of
    EasyBuild's ``--optarch``, empty for this machine's processor; ``command`` the command of EasyBuild; ``program`` the
    program that must be installed.
    """

    easyconfig: str
    robot: List[Path]
    site: Optional[Path]
    compiled_for: str
    command: str
    program: str

    def content(self) -> List[str]:
        """Return the content of easyconfig and configuration file; empty for an easyconfig of EasyBuild's own.

        :raises CacheError: a file cannot be read.
        """
        contents = []
        for path in (Path(self.easyconfig) if os.sep in self.easyconfig else None, self.site):
            try:
                contents.append(path.read_text() if path else "")
            except OSError as error:
                raise CacheError(f"no software: EasyBuild's file {path} cannot be read: {error.strerror}") from None
        return contents


class Module(cache.Entry):
    """The software that an easyconfig installs, and its module.

    :param directory: directory of the cache.
    """

    kind, setting = "cache of EasyBuild's software", "easybuild_cache"
    broken = "not complete"
    doing, done = "installing", "installed"

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str, target: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: a file cannot be read, or EasyBuild does not run.
        """
        # EasyBuild prints the name of the machine too.
        version = re.sub(r" on host \S+$", "", cache.version_of("EasyBuild", parts.command, name))
        key = cache.key_of(parts.easyconfig, parts.content(), parts.compiled_for, version)
        super().__init__(name, directory / f"{name}-{target}-{key}", architecture)
        self.parts, self.target = parts, target

    @property
    def tree(self) -> Path:
        """Return the tree of dependencies, which all easyconfigs of the target share."""
        return self.path.parent / f"tree-{self.target}"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the module and the program are still there."""
        installed = [self.path / record[name] for name in ("modulefile", "program")]
        file_trees.require_all(self.path, installed)
        return all(path.is_file() for path in installed)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install the easyconfig at its final path, because the module has that path in it.

        :raises CacheError: EasyBuild fails, or the program is not among the installed files.
        """
        waiting = f"{self.name}: another process is installing its dependencies"
        with locks.flocked(self.path.parent / f"{self.tree.name}.lock", shared=False, waiting=waiting):
            self._remove_half_written()
            *dependencies, (_, _, module) = self._plan(work)
            missing = [easyconfig for installed, easyconfig, _ in dependencies if installed != "x"]
            if missing:
                self._install(work, self.tree, missing)
        self._install(work, self.path, [self.parts.easyconfig])
        (self.path / contract.EASYBUILD_DEPENDENCIES).symlink_to(self.tree)
        return self.path, self._record_of(module)

    def _remove_half_written(self) -> None:
        """Remove module files of the tree that a full disk cut short: EasyBuild takes them for complete."""
        for path in (self.tree / contract.EASYBUILD_MODULES).rglob("[!.]*"):
            if path.is_file() and not path.read_text(errors="replace").endswith("\n"):
                print(f"{self.name}: {path} was never finished, installing it again", flush=True)
                path.unlink()

    def _plan(self, work: Path) -> List[Tuple[str, str, str]]:
        """Return whether it is installed, the easyconfig and the module for each step of the installation, in order.

        :raises CacheError: EasyBuild finds no easyconfig for a dependency, or its output cannot be read.
        """
        self._run(work, [*self._options(work, self.tree), "--dry-run", self.parts.easyconfig])
        steps = [(match[1], match[2], match[3]) for match in map(_PLANNED.match, self.lines()) if match]
        if not steps:
            raise CacheError(self.failed(f"{self.parts.command} --dry-run names no module"))
        return steps

    def _install(self, work: Path, prefix: Path, easyconfigs: List[str]) -> None:
        """Install easyconfigs into a prefix."""
        # EasyBuild's own locks outlive a killed build. The locks of this cache, which are held here, do not.
        self._run(work, [*self._options(work, prefix), "--ignore-locks", *easyconfigs])

    def _options(self, work: Path, prefix: Path) -> List[str]:
        """Return the options of EasyBuild."""
        # The colon at the end keeps EasyBuild's own directories.
        words = ["--robot=" + "".join(f"{path}:" for path in self.parts.robot)] if self.parts.robot else ["--robot"]
        words += [f"--installpath={prefix}", "--module-naming-scheme=EasyBuildMNS"]
        words += [f"--buildpath={work / 'build'}", f"--tmpdir={work / 'tmp'}"]
        words += [f"--configfiles={self.parts.site}"] if self.parts.site else []
        words += [f"--optarch={self.parts.compiled_for}"] if self.parts.compiled_for else []
        return words

    def _run(self, work: Path, words: List[str]) -> None:
        """Run EasyBuild in an empty directory: it would read easyconfigs in and below its working directory.

        It finds the modules of the tree, prints English messages, and does not break their lines, which Rich does at 80
        columns where it is installed.
        """
        for name in ("empty", "tmp"):
            (work / name).mkdir(exist_ok=True)
        paths = [str(self.tree / contract.EASYBUILD_MODULES), os.environ.get("MODULEPATH", "")]
        environment = {**os.environ, "LC_ALL": "C", "COLUMNS": "4000", "MODULEPATH": ":".join(filter(None, paths))}
        if self.parts.site is None:
            environment.setdefault("EASYBUILD_SOURCEPATH", str(self.path.parent / "sources"))
        self.run([[self.parts.command, *words]], cwd=str(work / "empty"), env=environment)

    def _record_of(self, module: str) -> Dict[str, Any]:
        """Return the record of a module that was just installed.

        :raises CacheError: there is no module file, or no such program.
        """
        software, modules = self.path / "software" / module, self.path / contract.EASYBUILD_MODULES
        names = [name for name in (f"{module}.lua", module) if (modules / name).is_file()]
        programs = [path for path in software.rglob(Path(self.parts.program).name) if os.access(str(path), os.X_OK)]
        programs = sorted((path for path in programs if path.is_file()), key=lambda path: len(path.parts))
        if not names:
            raise CacheError(self.failed(f"EasyBuild ended without an error, and there is no module {module}"))
        if not programs:
            raise CacheError(self.failed(f"{module} has no {self.parts.program}"))
        return {
            "module": module,
            "modulefile": f"{contract.EASYBUILD_MODULES}/{names[0]}",
            "program": str(programs[0].relative_to(self.path)),
            "bytes": file_trees.size_of(self.path),
        }

    def facts(self) -> Dict[str, Any]:
        """Return the installed module, and the SHA-256 of the easyconfig that EasyBuild keeps beside the software.

        :raises CacheError: the record has been removed.
        """
        module = self.read_record()["module"]
        kept = sorted((self.path / "software" / module / "easybuild").glob("*.eb"))
        digest = file_trees.digest_of(kept[0]) if kept else ""
        return {"module": module, "easyconfig": Path(self.parts.easyconfig).name, "sha256": digest}

    def last_words(self) -> str:
        """Return the line that says why EasyBuild failed: one of the failed command's output, where there is any."""
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
        if not errors:
            return super().last_words()
        # For sources that only the program's makers hand out.
        instructions = re.search(r"^Download instructions:\n\n *(\S.*)$", text, re.MULTILINE)
        shown = f"'{instructions[1]}'" if instructions else "the download instructions above"
        return errors[-1].replace("the download instructions above", shown)


def main() -> None:
    """Print the path of the software, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = cache.parser(__doc__)
    parser.add_argument("--easyconfig", required=True, help="file, or the name of one that EasyBuild has")
    parser.add_argument(
        "--robot", type=Path, action="append", default=[], help="directory that is searched before EasyBuild's own"
    )
    parser.add_argument("--easybuild", default="eb", help="command of EasyBuild (%(default)s)")
    parser.add_argument("--site", type=Path, help="the site's configuration file")
    parser.add_argument("--target", required=True, help="processor that is compiled for, one of archspec's names")
    parser.add_argument("--compiled-for", default="", help="value of EasyBuild's --optarch; by default this machine's")
    parser.add_argument("--program", required=True, help="program that must be installed")
    parser.add_argument("name", help="name of the software")
    arguments = parser.parse_args()

    def get() -> Path:
        easyconfig, robot = arguments.easyconfig, [path.resolve() for path in arguments.robot]
        if os.sep in easyconfig:
            easyconfig = str(Path(easyconfig).resolve())
        options = (arguments.site, arguments.compiled_for, arguments.easybuild, arguments.program)
        parts = Parts(easyconfig, robot, *options)
        module = Module(arguments.name, parts, arguments.cache, arguments.architecture, arguments.target)
        module.ensure()
        record = arguments.link.parent / contract.EASYBUILD_RECORD
        record.write_text(json.dumps(module.facts()))
        return module.path

    cache.deliver(get, arguments.link)
