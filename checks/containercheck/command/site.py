"""Writes a first file for this site, from what its scheduler, its nodes, its modules and its PATH say.

It is to be looked at: comments say where each value comes from, and what could not be found out.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.command.parsers import COMMANDS, parsed
from containercheck.node import inventory, mpi
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.results import atomic_files
from containercheck.results.formatting import say, speak_as, typed
from containercheck.session import inventories, preconditions, reframe_process
from containercheck.session.inventories import Answer
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError
from containercheck.site import clusters, discovery
from containercheck.site.clusters import Cluster
from containercheck.site.discovery import NodeKind

#: PMI plugins of srun with which it starts ranks of a container's MPI, too.
_STARTS_RANKS = re.compile(r"pmix|pmi2|cray_shasta")
#: File systems that nodes of a cluster share, by their types in proc(5).
_SHARED = re.compile(r"nfs4?|lustre|gpfs|beegfs|ceph|wekafs|panfs|orangefs|pvfs2|fhgfs|fuse\.(ceph|gluster)\S*|9p")
#: Variables by which centres name directories that nodes share, the ones that are kept longest first.
_PLACES = ("PROJECT", "WORK", "WORKDIR", "SCRATCH")
#: Caches, each an extra, in a directory that nodes share.
_CACHES = ("image_cache", "venv_cache", "jar_cache", "program_cache", "input_cache")
_INDENT = " " * 16
#: What is said of an entry of the extras.
_EXPLAINED = {'"parallel_environment": None': "  # qconf does not tell it to this host: name it"}


@dataclass(frozen=True)
class Surroundings:
    """What the file is made of.

    :ivar name: what the system is to be called.
    :ivar cluster: what the scheduler tells; None without one.
    :ivar here: what this host has, as ``node.inventory.inventory`` returns it.
    :ivar runtimes: modules of container runtimes, by ReFrame's type of platform.
    :ivar mpi_modules: modules of MPI.
    :ivar answers: what the nodes have, by the name of the partition; empty before they are asked.
    :ivar unasked: why nodes were not asked; empty where they were.
    :ivar pending: longest wait for a job that asks, such as ``5m``; empty in the final file.
    """

    name: str
    cluster: Cluster | None
    here: Mapping[str, Any]
    runtimes: Mapping[str, str] = field(default_factory=dict)
    mpi_modules: Sequence[str] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)
    unasked: str = ""
    pending: str = ""

    def of(self, partition: str) -> Mapping[str, Any]:
        """Return what the nodes of a partition have; empty where that is not known."""
        answer = self.answers.get(partition)
        return answer.facts if answer else {}


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the file, write it, or print how it differs from the one that is there; return the exit status."""
    speak_as("site")
    options, _, _ = parsed("site", argv)
    text = site_file(options.system or "mysite", place, not options.no_jobs, options.scheduler)
    path: Path | None = options.file
    if path is None:
        print(text, end="")
        return 0
    try:
        if path.exists():
            before = path.read_text()
            lines = difflib.unified_diff(
                before.splitlines(keepends=True), text.splitlines(keepends=True), str(path), "what is here now"
            )
            print("".join(lines), end="")
            say(f"{path} is there already, and was left as it is" if before != text else f"{path} says the same")
            return 0 if before == text else 1
        atomic_files.write(path, text)
    except (OSError, UnicodeDecodeError) as error:
        say(f"error: cannot write {path}: {getattr(error, 'strerror', None) or error}")
        return COMMANDS["site"].wrong_usage
    say(f"written: {path}; look through it, then {typed('doctor')} -C {path} --system={options.system or 'mysite'}")
    return 0


def site_file(name: str, place: Workplace, with_jobs: bool = True, scheduler: str | None = None) -> str:
    """Return the text of the file.

    :param name: what the system is to be called.
    :param with_jobs: whether a job asks a node of each partition.
    :param scheduler: the one to ask; by default the first that answers.
    """
    runtimes, mpi_modules = clusters.available_modules()
    known = Surroundings(name, clusters.find(scheduler), inventory.inventory(), runtimes, mpi_modules)
    if known.cluster and with_jobs:
        known = _ask(replace(known, pending="5m"), place)
    elif known.cluster:
        known = replace(known, unasked="--no-jobs")
    return text_of(replace(known, pending=""))


def _ask(draft: Surroundings, place: Workplace) -> Surroundings:
    """Return the same with what the nodes have, by jobs that the file itself describes."""
    with tempfile.TemporaryDirectory() as directory, reframe_process.Relay() as relay:
        path = Path(directory, "site.py")
        # Without modules: what nodes have anyway needs none.
        path.write_text(text_of(replace(draft, runtimes={}, mpi_modules=())))
        place = replace(place, report_file=Path(directory, "report.json"))
        try:
            answers = inventories.of_partitions(["-C", str(path), f"--system={draft.name}"], place, relay)
        except (UsageError, ReframeFailed, OSError) as error:
            return replace(draft, unasked=str(error))
    return replace(draft, answers={answer.partition.rpartition(":")[2]: answer for answer in answers})


def text_of(known: Surroundings) -> str:
    """Return the text of the file that these facts make."""
    cluster = known.cluster
    origin = f"{cluster.scheduler} ({cluster.command})" if cluster else "this machine: no scheduler answered"
    partitions = [_of_kind(kind, known) for kind in cluster.kinds] if cluster else [_this_machine(known)]
    return "\n".join(
        [
            f'"""{known.name}: written by containercheck site from {origin}, to be looked through before it is used.',
            "",
            "config/template.py explains every key, and has more of them.",
            '"""',
            "",
            "site_configuration = {",
            '    "systems": [',
            "        {",
            f'            "name": "{known.name}",',
            "            # From the name of this host; another login node has to match too.",
            f'            "hostnames": [r"{hostnames(socket.gethostname())}"],',
            f"            {_modules(known.here['modules'])}",
            '            "partitions": [',
            *(line for lines in partitions for line in lines),
            "            ],",
            "        }",
            "    ],",
            '    "environments": [',
            *(f"        {line}" for line in _environments(known)),
            "    ],",
            "}",
            "",
        ]
    )


def hostnames(name: str) -> str:
    r"""Return a regular expression for this host and its like.

    >>> hostnames("login2.example.org")
    '^login\\d+\\.example\\.org$'
    """
    return "^" + re.sub(r"\d+", r"\\d+", re.escape(name).replace(r"\-", "-")) + "$"


def _modules(system: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the line of the module system, which ReFrame finds by a variable of shells that have it.

    :param system: as ``node.inventory.module_system`` returns it.
    """
    if not system:
        return '"modules_system": "nomod",  # no module command here'
    name, variable = ("lmod", "LMOD_CMD") if system.startswith("Lmod") else ("tmod4", "MODULES_CMD")
    if variable in environment:
        return f'"modules_system": "{name}",  # {system}'
    return f'"modules_system": "nomod",  # "{name}" from a login shell, which has {system}: this one has no {variable}'


def _environments(known: Surroundings) -> list[str]:
    """Return the lines of the environments: one without modules, and one with the first module of MPI."""
    compilers = '"cc": "mpicc", "cxx": "mpicxx", "ftn": "mpif90"'
    lines = [f'{{"name": "builtin", {compilers}}},']
    if known.mpi_modules:
        lines += [
            f"# Modules of MPI here (module avail): {', '.join(known.mpi_modules)}.",
            f'{{"name": "mpi", "modules": ["{known.mpi_modules[0]}"], {compilers}}},',
        ]
    return lines


def _environs(known: Surroundings, facts: Mapping[str, Any]) -> str:
    """Return the line of a partition's environments: that with a module where the loader finds no MPI without."""
    if known.mpi_modules and not facts.get("mpi"):
        return '"environs": ["mpi"],  # without its module the loader finds no MPI'
    return '"environs": ["builtin"],'


def _name(kind: NodeKind, cluster: Cluster) -> str:
    """Return the name of a partition of ReFrame's, of which there is one for each kind of node."""
    feature = discovery.distinguishing(kind, cluster.kinds) if kind.others else ""
    same = [other for other in cluster.kinds if other.partition == kind.partition]
    number = same.index(kind) + 1
    return re.sub(r"\W", "_", kind.partition + (f"_{feature or number}" if kind.others else ""))


def _of_kind(kind: NodeKind, known: Surroundings) -> list[str]:
    """Return the lines of a partition whose nodes are of one kind."""
    cluster = known.cluster
    assert cluster
    name = _name(kind, cluster)
    facts = known.of(name)
    access = cluster.access(kind)
    source = cluster.command.split(",")[0].split()[0]
    notes = [f"# {kind.nodes} node(s) of this kind, {kind.in_service} of them in service now ({source})."]
    if kind.others and len(access) < 2:
        notes.append("# The partition has other nodes too, and no feature tells these from them: add one to access.")
    notes.append(f"# Whether jobs need an account or a project, {source} does not say: add it here.")
    lines = [
        "{",
        f'    "name": "{name}",',
        f'    "scheduler": "{cluster.backend}",{f"  # {cluster.note}" if cluster.note else ""}',
        _launcher(known, facts),
        *(f"    {note}" for note in notes),
        f'    "access": {_list(access)},',
        f"    {_environs(known, facts)}",
    ]
    limit = discovery.reframe_time(kind.time_limit)
    lines += [f'    "time_limit": "{limit}",'] if limit else [f"    # No time limit that {source} tells."]
    lines += _processor(kind, facts, known)
    if kind.gpus:
        lines += [
            f"    # {source} does not say which architecture the GPUs have (sm_80, gfx90a).",
            f'    "devices": [{{"type": "gpu", "model": "{kind.gpu_type}", "num_devices": {kind.gpus}}}],',
        ]
        if cluster.gpu_option:
            lines.append(f'    "resources": [{{"name": "_rfm_gpu", "options": ["{cluster.gpu_option}"]}}],')
    extras = [f'"max_nodes": {max(1, kind.nodes)}']
    if kind.memory:
        extras.append(f'"memory_per_node": {kind.memory} << 20')
    elif facts:
        extras.append(f'"memory_per_node": {facts["processor"]["memory"] >> 20} << 20')
    if cluster.environments.get(kind.partition):
        extras.append(f'"parallel_environment": "{cluster.environments[kind.partition][0]}"')
    elif cluster.scheduler == "Grid Engine":
        extras.append('"parallel_environment": None')
    if known.pending:
        extras.append(f'"max_pending_time": "{known.pending}"')
    family = _family(known, facts)
    if family:
        extras.append(f'"mpi": "{family}"')
    return _indented([*lines, *_platforms(known, facts), *_extras(extras), "},"])


def _launcher(known: Surroundings, facts: Mapping[str, Any]) -> str:
    """Return the line of the launcher, with why it is that one."""
    if known.cluster and known.cluster.scheduler != "Slurm":
        return f'    "launcher": "mpirun",  # the usual one with {known.cluster.scheduler}; nothing here tells'
    plugins = (facts or known.here)["pmi"]
    starts = [plugin for plugin in plugins if _STARTS_RANKS.match(plugin)]
    if starts:
        return f'    "launcher": "srun",  # srun has {", ".join(starts)}'
    return '    "launcher": "mpirun",  # srun has no PMI with which it starts ranks (srun --mpi=list)'


def _family(known: Surroundings, facts: Mapping[str, Any]) -> str:
    """Return the family of the nodes' MPI where it is not the default; empty for that, or where it is not known."""
    families = [library["family"] for library in facts.get("mpi", ()) if library["family"] in mpi.FAMILIES]
    return families[0] if families and families[0] != "openmpi" else ""


def _this_machine(known: Surroundings) -> list[str]:
    here = known.here
    processor = here["processor"]
    threads = max(1, processor["processors"] // max(1, processor["cores"]))
    launcher = "mpirun" if here["mpi"] else "local"
    lines = [
        "{",
        '    "name": "default",',
        '    "scheduler": "local",',
        f'    "launcher": "{launcher}",  # {"an MPI library is here" if here["mpi"] else "no MPI library is here"}',
        f"    {_environs(known, here)}",
        *_cpus(
            processor["processors"], processor["sockets"], processor["cores"] // max(1, processor["sockets"]), threads
        ),
    ]
    return _indented([*lines, *_platforms(known, here), "},"])


def _processor(kind: NodeKind, facts: Mapping[str, Any], known: Surroundings) -> list[str]:
    """Return the lines of a node's processor: as the scheduler tells it, else as a job saw it; with architecture."""
    processor = facts.get("processor", {})
    architecture = processor.get("architecture", "")
    if architecture:
        notes = [
            f"    # The architecture as a job on {facts['host']['name']} saw it ({processor['model'] or '?'}). With",
            "    # archspec's name of the processor, such as zen2, software is compiled for that.",
        ]
    else:
        why = known.unasked or "; ".join(answer.problem for answer in known.answers.values() if answer.problem)
        notes = [f"    # The architecture is left to ReFrame to detect: no job has told it ({why or 'not asked'})."]
    shape = kind.sockets, kind.cores, kind.threads
    if not all(shape) and processor:
        cores = max(1, processor["cores"] // processor["sockets"])
        shape = processor["sockets"], cores, max(1, processor["processors"] // processor["cores"])
        notes.append("    # Sockets, cores and threads too are what the job saw.")
    if all(shape):
        sockets, cores, threads = shape
        processors = kind.processors if all((kind.sockets, kind.cores)) else processor["processors"]
        return [*notes, *_cpus(processors, sockets, cores, threads, architecture)]
    notes.append("    # Nothing here tells sockets and hardware threads: these are taken for cores.")
    return [*notes, *_cpus(kind.processors, 1, kind.processors, 1, architecture)]


def _cpus(processors: int, sockets: int, cores: int, threads: int, architecture: str = "") -> list[str]:
    return [
        '    "processor": {',
        *([f'        "arch": "{architecture}",'] if architecture else []),
        f'        "num_cpus": {processors},',
        f'        "num_cpus_per_core": {max(1, threads)},',
        f'        "num_cpus_per_socket": {max(1, cores * max(1, threads))},',
        f'        "num_sockets": {max(1, sockets)},',
        "    },",
    ]


def _platforms(known: Surroundings, facts: Mapping[str, Any]) -> list[str]:
    """Return the lines about container runtimes: those of nodes, or of this host, and those of modules."""
    who = f"a job on {facts['host']['name']}" if facts and facts is not known.here else "this host"
    usable = {
        runtime["name"]: runtime["path"] for runtime in (facts or known.here)["runtimes"] if not runtime["problem"]
    }
    entries, origins = [], []
    for name in (runtime.name for runtime in RUNTIMES):
        if name in usable:
            entries.append(f'{{"type": "{name}"}}')
            origins.append(f"{name} on the PATH of {who}, {usable[name]}")
        elif name in known.runtimes:
            entries.append(f'{{"type": "{name}", "modules": ["{known.runtimes[name]}"]}}')
            origins.append(f"{name} from module avail")
    if not entries:
        return [
            f"    # No container runtime is on the PATH of {who}, and no module has one: name it.",
            '    "container_platforms": [],',
        ]
    more = "" if facts else "; nodes need them too"
    return [f"    # {'; '.join(origins)}{more}.", f'    "container_platforms": [{", ".join(entries)}],']


def _extras(entries: Sequence[str]) -> list[str]:
    return [
        '    "extras": {',
        '        "containercheck": {',
        *(f"            {entry},{_EXPLAINED.get(entry, '')}" for entry in entries),
        *(f"            {line}" for line in caches(os.environ)),
        "        }",
        "    },",
    ]


def caches(environment: Mapping[str, str], mounts: Path = preconditions.MOUNTS) -> list[str]:
    """Return the lines about caches: below the home directory where nodes share it, else in a place that they share.

    :param environment: variables, of which some name such places.
    :param mounts: file with the mounted file systems.
    """
    home = Path(environment.get("HOME", "/"))
    kind = preconditions.file_system(home, mounts)
    if _SHARED.fullmatch(kind):
        return [f"# Caches lie below the home directory, which is on {kind}: nodes see it."]
    for variable in _PLACES:
        place = environment.get(variable)
        kind_of_place = preconditions.file_system(Path(place), mounts) if place else ""
        if place and _SHARED.fullmatch(kind_of_place):
            lines = [
                f"# Home is on {kind or 'an unknown file system'}, and ${variable} on {kind_of_place}, which nodes see."
            ]
            return lines + [
                f'"{name}": "${variable}/containercheck/{name.replace("_cache", "s")}",' for name in _CACHES
            ]
    return [
        f"# Caches lie below the home directory, on {kind or 'an unknown file system'}; if nodes do not see that, name",
        f"# a place that they share, for each of {', '.join(_CACHES)}:",
        '# "image_cache": "/shared/containercheck/images",',
    ]


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]
