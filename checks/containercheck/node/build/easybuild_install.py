"""Installs an easyconfig and its dependencies into a cache with EasyBuild.

    python3 checks/containercheck easybuild --easyconfig easyconfigs/HPCC-1.5.0-gompi-system.eb --target zen4 \\
        --architecture x86_64 --cache ~/.cache/containercheck/easybuilds --link easybuild --program hpcc HPCC

makes ``easybuild`` a link to a directory with the module of that easyconfig, and prints its path. The dependencies are
installed into one tree of the cache for each target, which all easyconfigs share: a name and a version identify a
module there. ``easybuild/dependencies`` is a link to that tree. The key of the easyconfig's own directory is a digest
of its content, of EasyBuild's version, of the site's configuration file and of the target, so that a changed easyconfig
disturbs no running job.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, ContextManager, Dict, List, NamedTuple, Optional, Tuple

from containercheck.node import contract, locks, texts
from containercheck.node.build import build_logs, cache, file_trees, ownership, tools
from containercheck.node.build.cache import CacheError

#: Line of EasyBuild's dry run: whether the module is installed, the easyconfig, and the module.
_PLANNED = re.compile(r"^ \* \[([ xFR])\] (\S.*) \(module: (\S+)\)$")
#: Line of EasyBuild that reports an error.
_ERROR = re.compile(r"^(?:== .*?)?ERROR:? *(\S.*)")
#: Line of EasyBuild that names the file with the output of a failed command.
_OUTPUT = re.compile(r"^ *output \(.*\) +-> +(/.*)$")
#: Lines of that output that say why the command failed: a reported error or, where there is none, a mentioned one.
_TELLING = tuple(re.compile(pattern, re.I) for pattern in (r"\berror:|undefined reference", r"\berror\b"))
#: Line of EasyBuild that names its own log.
_WRITTEN = re.compile(r"^== Results of the build can be found in the log file\(s\) (/.*)$")
#: Last comment of a module file, in Lua or Tcl.
_END = re.compile(r"^(?:--|#) Built with EasyBuild version", re.MULTILINE)


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
    #: A toolchain among the dependencies needs many times that.
    needed_space = 4 << 30

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str, target: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: a file cannot be read, or EasyBuild does not run.
        :raises UnsupportedError: there is no EasyBuild.
        """
        # EasyBuild prints the name of the machine too.
        version = re.sub(r" on host \S+$", "", tools.version_of("EasyBuild", parts.command, name))
        facts = [parts.easyconfig, parts.content(), parts.compiled_for, version]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{Path(parts.easyconfig).stem}-{target}-{key}", architecture)
        self.parts = parts
        #: Tree of dependencies, which all easyconfigs of the target share.
        self.tree = directory / f"tree-{target}"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the module and the program are still there."""
        installed = [self.path / record[name] for name in ("modulefile", "program")]
        ownership.require_below(self.path, installed)
        return all(path.is_file() for path in installed)

    def move(self, directory: Path) -> None:
        """Use another cache, which has a tree of its own."""
        super().move(directory)
        self.tree = directory / self.tree.name

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install the easyconfig at its final path, because the module has that path in it.

        :raises CacheError: EasyBuild fails, or the program is not among the installed files.
        """
        if self._half_written():
            with self._alone_in_tree():
                for path in self._half_written():
                    print(f"{self.name}: {path} was never finished, installing it again", flush=True)
                    path.unlink()
        *dependencies, (_, _, module) = self._plan(work)
        missing = [easyconfig for installed, easyconfig, _ in dependencies if installed != "x"]
        if missing:
            with self._alone_in_tree():
                self._install(work, self.tree, missing)
        try:
            self._install(work, self.path, [self.parts.easyconfig])
            (self.path / contract.EASYBUILD_DEPENDENCIES).symlink_to(self.tree)
            record = self._record_of(module)
        except BaseException:
            file_trees.remove(self.path)
            raise
        return self.path, record

    def _alone_in_tree(self) -> ContextManager[bool]:
        """Hold the lock of the tree of dependencies."""
        waiting = f"{self.name}: another process is installing its dependencies"
        return locks.flocked(self.tree.parent / f"{self.tree.name}.lock", shared=False, waiting=waiting)

    def _half_written(self) -> List[Path]:
        """Return the module files of the tree that a full disk cut short, and that EasyBuild takes for complete."""
        modules = [path for path in (self.tree / contract.EASYBUILD_MODULES).rglob("[!.]*") if path.is_file()]
        contents = {path: path.read_text(errors="replace") for path in modules}
        # A hook of the site may write another last line.
        return [path for path, text in contents.items() if not text.endswith("\n") and not _END.search(text)]

    def _plan(self, work: Path) -> List[Tuple[str, str, str]]:
        """Return whether it is installed, the easyconfig and the module for each step of the installation, in order.

        :raises CacheError: EasyBuild finds no easyconfig for a dependency, or its output cannot be read.
        """
        self._run(work, [*self._options(work, self.tree), "--dry-run", self.parts.easyconfig])
        steps = [match.groups() for match in map(_PLANNED.match, self.lines()) if match]
        if not steps:
            raise CacheError(self.failed(f"{self.parts.command} --dry-run names no module"))
        return steps  # type: ignore[return-value]

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
        """Run EasyBuild in an empty directory: it would read easyconfigs in and below its working directory."""
        empty = work / "empty"
        empty.mkdir(exist_ok=True)
        (work / "tmp").mkdir(exist_ok=True)
        self.run([[self.parts.command, *words]], cwd=str(empty), env=self._environment())

    def _environment(self) -> Dict[str, str]:
        """Return the environment in which EasyBuild finds the modules of the tree, and prints English messages."""
        inherited = os.environ.get("MODULEPATH")
        paths = [str(self.tree / contract.EASYBUILD_MODULES), *([inherited] if inherited else [])]
        variables = {"LC_ALL": "C", "MODULEPATH": ":".join(paths)}
        if "EASYBUILD_SOURCEPATH" not in os.environ and self.parts.site is None:
            variables["EASYBUILD_SOURCEPATH"] = str(self.tree.parent / "sources")
        return {**os.environ, **variables}

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
            raise CacheError(self.failed(f"what {module} installed has no {self.parts.program}"))
        return {
            "module": module,
            "modulefile": f"{contract.EASYBUILD_MODULES}/{names[0]}",
            "program": str(programs[0].relative_to(self.path)),
            "bytes": file_trees.content_of(self.path)[1],
        }

    def facts(self) -> Dict[str, Any]:
        """Return the installed module, and the SHA-256 of the easyconfig that EasyBuild keeps beside the software.

        :raises CacheError: the record has been removed.
        """
        module = self.read_record()["module"]
        kept = sorted((self.path / "software" / module / "easybuild").glob("*.eb"))
        digest = file_trees.digest_of(kept[0]) if kept else ""
        return {"module": module, "easyconfig": Path(self.parts.easyconfig).name, "sha256": digest}

    def failed(self, why: str) -> str:
        """Return the message of a failed installation, in two lines."""
        return f"{self.doing} {self.name} failed: {why}\nthe whole log: {self.log}"

    def space_ran_out(self) -> bool:
        """Tell whether a full disk made it fail: for a module file, only EasyBuild's own log says so."""
        logs = [Path(match.group(1)) for match in map(_WRITTEN.match, self.lines()) if match]
        contents = (texts.tail(path) for path in logs if path.is_file())
        return super().space_ran_out() or any(build_logs.DISK_FULL in content for content in contents)

    def last_words(self) -> str:
        """Return the line that says why EasyBuild failed: one of the failed command's output, where there is any."""
        lines = self.lines()
        for match in filter(None, map(_OUTPUT.match, lines)):
            output = Path(match.group(1))
            if not output.is_file():
                continue
            # The file is removed together with the build directory.
            text = texts.tail(output, build_logs.MAX_LOG_BYTES)
            with self.written_log.open("a") as stream:
                stream.write(text)
            output_lines = [line.strip() for line in text.splitlines()]
            for pattern in _TELLING:
                telling = next(filter(pattern.search, output_lines), None)
                if telling:
                    return telling
        errors = [match.group(1).strip() for match in map(_ERROR.match, lines) if match]
        if not any(errors):
            return super().last_words()
        # For sources that only the program's makers hand out.
        instructions = re.search(r"^Download instructions:\n\n *(\S.*)$", "\n".join(lines), re.MULTILINE)
        if not instructions:
            return errors[-1]
        return errors[-1].replace("the download instructions above", f"'{instructions[1]}'")


def main() -> None:
    """Print the path of the software, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easyconfig", required=True, help="file, or the name of one that EasyBuild has")
    parser.add_argument(
        "--robot", type=Path, action="append", default=[], help="directory that is searched before EasyBuild's own"
    )
    parser.add_argument("--easybuild", default="eb", help="command of EasyBuild (%(default)s)")
    parser.add_argument("--site", type=Path, help="the site's configuration file")
    parser.add_argument("--target", required=True, help="processor that is compiled for, one of archspec's names")
    parser.add_argument("--compiled-for", default="", help="value of EasyBuild's --optarch; by default this machine's")
    parser.add_argument("--architecture", required=True, help="architecture of the partition, as uname -m prints it")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the installed software")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to it")
    parser.add_argument("--program", required=True, help="program that must be installed")
    parser.add_argument("name", help="name of the software")
    arguments = parser.parse_args()

    def get() -> Path:
        easyconfig, robot = arguments.easyconfig, [path.resolve() for path in arguments.robot]
        if os.sep in easyconfig:
            easyconfig = str(Path(easyconfig).resolve())
        options = (arguments.site, arguments.compiled_for, arguments.easybuild, arguments.program)
        parts = Parts(easyconfig, robot, *options)
        module = Module(arguments.name, parts, arguments.cache.resolve(), arguments.architecture, arguments.target)
        module.ensure()
        record = arguments.link.parent / contract.EASYBUILD_RECORD
        record.write_text(json.dumps(module.facts()))
        return module.path

    cache.deliver(get, arguments.link)
