"""Installs an easyconfig with EasyBuild into a cache: once, with what it depends on, for modules to be loaded from.

    python3 checks/containercheck easybuild --easyconfig easyconfigs/HPCC-1.5.0-gompi-system.eb --target zen4 \\
        --architecture x86_64 --cache ~/.cache/containercheck/easybuilds --link easybuild --program hpcc HPCC

makes ``easybuild`` a link to a directory with the one module of that easyconfig, and prints its path. What it depends
on is installed into one tree of the cache for each target, as EasyBuild does it: a name and a version are one thing
there. ``easybuild/dependencies`` is a link to that. The easyconfig's own directory is keyed by its content, by
EasyBuild's version, by the site's configuration file and by the target: a changed easyconfig disturbs no job that runs.

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

#: A line of what would be done: whether it is there, the easyconfig, and its module.
_PLANNED = re.compile(r"^ \* \[([ xFR])\] (\S.*) \(module: (\S+)\)$")
#: A line of EasyBuild's that says what is wrong, with what stands before it.
_ERROR = re.compile(r"^(?:== .*?)?ERROR:? *(\S.*)")
#: Where it says that a command's output is, and lines of that which tell why it failed: those that report an error, and
#: where there are none, those that speak of one.
_OUTPUT = re.compile(r"^ *output \(.*\) +-> +(/.*)$")
_TELLING = tuple(re.compile(pattern, re.I) for pattern in (r"\berror:|undefined reference", r"\berror\b"))
#: Where it says that all it did is written down.
_WRITTEN = re.compile(r"^== Results of the build can be found in the log file\(s\) (/.*)$")
#: What it ends a module with, in the comment of either language.
_END = re.compile(r"^(?:--|#) Built with EasyBuild version", re.MULTILINE)


class Parts(NamedTuple):
    """What is installed, and how.

    ``easyconfig`` is a file, or the name of one that EasyBuild has; ``robot`` the directories that it looks into before
    its own; ``site`` the site's configuration file, if it has one; ``compiled_for`` what EasyBuild is told of the
    processor, empty where it is this machine's; ``command`` that of EasyBuild; ``program`` what is to be there.
    """

    easyconfig: str
    robot: List[Path]
    site: Optional[Path]
    compiled_for: str
    command: str
    program: str

    def content(self) -> List[str]:
        """Return the content of the files; of one that EasyBuild has it is in its version.

        :raises CacheError: one of them cannot be read.
        """
        found = []
        for path in (Path(self.easyconfig) if os.sep in self.easyconfig else None, self.site):
            try:
                found.append(path.read_text() if path else "")
            except OSError as error:
                raise CacheError(f"no software: EasyBuild's file {path} cannot be read: {error.strerror}") from None
        return found


class Module(cache.Entry):
    """What one easyconfig installs: software, and the module that makes it available.

    :param directory: of the cache.
    """

    kind, setting = "cache of EasyBuild's software", "easybuild_cache"
    broken = "not complete"
    doing, done = "installing", "installed"
    #: Of a toolchain that is built too, many times that.
    needed_space = 4 << 30

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str, target: str) -> None:
        """Find its place in the cache.

        :raises CacheError: a file cannot be read, or EasyBuild does not run.
        :raises UnsupportedError: there is no EasyBuild.
        """
        # It says the machine's name too.
        version = re.sub(r" on host \S+$", "", tools.version_of("EasyBuild", parts.command, name))
        facts = [parts.easyconfig, parts.content(), parts.compiled_for, version]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{Path(parts.easyconfig).stem}-{target}-{key}", architecture)
        self.parts = parts
        #: What other easyconfigs share.
        self.tree = directory / f"tree-{target}"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the module and the program are still there."""
        made = [self.path / record[name] for name in ("modulefile", "program")]
        ownership.require_below(self.path, made)
        return all(path.is_file() for path in made)

    def move(self, directory: Path) -> None:
        """Have another cache, with a tree of its own."""
        super().move(directory)
        self.tree = directory / self.tree.name

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install it, where it stays: the module knows its place.

        :raises CacheError: that fails, or what it installed has no such program.
        """
        if self._half_written():
            with self._alone_in_tree():
                for path in self._half_written():
                    print(f"{self.name}: {path} was never finished, installing it again", flush=True)
                    path.unlink()
        *others, (_, _, module) = self._plan(work)
        before = [path for there, path, _ in others if there != "x"]
        if before:
            with self._alone_in_tree():
                self._install(work, self.tree, before)
        try:
            self._install(work, self.path, [self.parts.easyconfig])
            (self.path / contract.EASYBUILD_DEPENDENCIES).symlink_to(self.tree)
            record = self._found(module)
        except BaseException:
            file_trees.remove(self.path)
            raise
        return self.path, record

    def _alone_in_tree(self) -> ContextManager[bool]:
        waiting = f"{self.name}: somebody else is installing what it depends on"
        return locks.flocked(self.tree.parent / f"{self.tree.name}.lock", shared=False, waiting=waiting)

    def _half_written(self) -> List[Path]:
        """Return modules of the tree that EasyBuild takes for installed, and a full disk cut short."""
        modules = [path for path in (self.tree / contract.EASYBUILD_MODULES).rglob("[!.]*") if path.is_file()]
        contents = {path: path.read_text(errors="replace") for path in modules}
        # A site's hook may write another end.
        return [path for path, text in contents.items() if not text.endswith("\n") and not _END.search(text)]

    def _plan(self, work: Path) -> List[Tuple[str, str, str]]:
        """Return what is to be installed, in its order: whether it is there, its easyconfig and its module.

        :raises CacheError: EasyBuild finds no easyconfig for something, or says nothing that can be read.
        """
        self._run(work, [*self._options(work, self.tree), "--dry-run", self.parts.easyconfig])
        found = [match.groups() for match in map(_PLANNED.match, self.lines()) if match]
        if not found:
            raise CacheError(self.failed(f"{self.parts.command} --dry-run names no module"))
        return found  # type: ignore[return-value]

    def _install(self, work: Path, prefix: Path, easyconfigs: List[str]) -> None:
        # Its own locks outlive a build that was killed. Ours do not, and are held here.
        self._run(work, [*self._options(work, prefix), "--ignore-locks", *easyconfigs])

    def _options(self, work: Path, prefix: Path) -> List[str]:
        # The colon at the end keeps its own.
        words = ["--robot=" + "".join(f"{path}:" for path in self.parts.robot)] if self.parts.robot else ["--robot"]
        words += [f"--installpath={prefix}", "--module-naming-scheme=EasyBuildMNS"]
        words += [f"--buildpath={work / 'build'}", f"--tmpdir={work / 'tmp'}"]
        words += [f"--configfiles={self.parts.site}"] if self.parts.site else []
        words += [f"--optarch={self.parts.compiled_for}"] if self.parts.compiled_for else []
        return words

    def _run(self, work: Path, words: List[str]) -> None:
        # It takes easyconfigs from its working directory, and from below.
        empty = work / "empty"
        empty.mkdir(exist_ok=True)
        (work / "tmp").mkdir(exist_ok=True)
        self.run([[self.parts.command, *words]], cwd=str(empty), env=self._environment())

    def _environment(self) -> Dict[str, str]:
        """Return variables with which it finds what is in the tree, and writes what is searched for errors."""
        known = os.environ.get("MODULEPATH")
        paths = [str(self.tree / contract.EASYBUILD_MODULES), *([known] if known else [])]
        facts = {"LC_ALL": "C", "MODULEPATH": ":".join(paths)}
        if "EASYBUILD_SOURCEPATH" not in os.environ and self.parts.site is None:
            facts["EASYBUILD_SOURCEPATH"] = str(self.tree.parent / "sources")
        return {**os.environ, **facts}

    def _found(self, module: str) -> Dict[str, Any]:
        """Return the record of what was just installed.

        :raises CacheError: it has no module, or no such program.
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
        """Return what was installed: the module, and the SHA-256 of the easyconfig that EasyBuild has kept.

        :raises CacheError: it is gone again.
        """
        known = self.read_record()
        kept = sorted((self.path / "software" / known["module"] / "easybuild").glob("*.eb"))
        digest = file_trees.digest_of(kept[0]) if kept else ""
        return {"module": known["module"], "easyconfig": Path(self.parts.easyconfig).name, "sha256": digest}

    def failed(self, why: str) -> str:
        """Say in two lines what could not be had."""
        return f"{self.doing} {self.name} failed: {why}\nthe whole log: {self.log}"

    def space_ran_out(self) -> bool:
        """Tell whether that is why it failed: of a module that could not be written, only its own log says it."""
        written = [Path(match.group(1)) for match in map(_WRITTEN.match, self.lines()) if match]
        said = (texts.tail(path) for path in written if path.is_file())
        return super().space_ran_out() or any(build_logs.FULL in text for text in said)

    def last_words(self) -> str:
        """Return the line that says what is wrong: of the command that failed, where there is one."""
        lines = self.lines()
        for match in filter(None, map(_OUTPUT.match, lines)):
            output = Path(match.group(1))
            if not output.is_file():
                continue
            # It lies in a directory that is removed with the build.
            text = texts.tail(output, build_logs.LOGGED)
            with self.written_log.open("a") as stream:
                stream.write(text)
            lines_of_it = [line.strip() for line in text.splitlines()]
            for pattern in _TELLING:
                telling = next(filter(pattern.search, lines_of_it), None)
                if telling:
                    return telling
        errors = [match.group(1).strip() for match in map(_ERROR.match, lines) if match]
        if not any(errors):
            return super().last_words()
        # Of what only its makers hand out.
        told = re.search(r"^Download instructions:\n\n *(\S.*)$", "\n".join(lines), re.MULTILINE)
        return errors[-1].replace("the download instructions above", f"'{told[1]}'") if told else errors[-1]


def main() -> None:
    """Print the path of what was installed, or one error; the status ``contract.UNSUPPORTED`` is a reason to skip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easyconfig", required=True, help="file, or the name of one that EasyBuild has")
    parser.add_argument("--robot", type=Path, action="append", default=[], help="look here before EasyBuild's own")
    parser.add_argument("--easybuild", default="eb", help="command; by default that on the PATH")
    parser.add_argument("--site", type=Path, help="the site's configuration file")
    parser.add_argument("--target", required=True, help="what is compiled for, one of archspec's names")
    parser.add_argument("--compiled-for", default="", help="the same as EasyBuild's --optarch; by default this machine")
    parser.add_argument("--architecture", required=True, help="of the partition, as uname -m says it")
    parser.add_argument("--cache", type=Path, required=True, help="directory of what is installed")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to it")
    parser.add_argument("--program", required=True, help="what has to be there then")
    parser.add_argument("name", help="what to call it")
    arguments = parser.parse_args()

    def get() -> Path:
        easyconfig, robot = arguments.easyconfig, [path.resolve() for path in arguments.robot]
        if os.sep in easyconfig:
            easyconfig = str(Path(easyconfig).resolve())
        facts = (arguments.site, arguments.compiled_for, arguments.easybuild, arguments.program)
        parts = Parts(easyconfig, robot, *facts)
        module = Module(arguments.name, parts, arguments.cache.resolve(), arguments.architecture, arguments.target)
        module.ensure()
        record = arguments.link.parent / contract.EASYBUILD_RECORD
        record.write_text(json.dumps(module.facts()))
        return module.path

    cache.deliver(get, arguments.link)
