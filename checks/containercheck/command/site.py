"""Writes a first file for this site, from what its scheduler, its launcher and its PATH say.

It is to be looked at: comments say where each value comes from, and what nobody here could tell.
"""

from __future__ import annotations

import difflib
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from containercheck.command.parsers import COMMANDS, parsed
from containercheck.node import inventory
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.results import atomic_files
from containercheck.results.formatting import say, speak_as, typed
from containercheck.session.reframe_process import Workplace
from containercheck.site import discovery
from containercheck.site.discovery import NodeKind

#: PMI plugins of srun with which it starts ranks of a container's MPI, too.
_STARTS_RANKS = re.compile(r"pmix|pmi2|cray_shasta")
_INDENT = " " * 16


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the file, write it, or print how it differs from the one that is there; return the exit status."""
    speak_as("site")
    known, _, _ = parsed("site", argv)
    text = site_file(known.system or "mysite")
    path: Path | None = known.file
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
    say(f"written: {path}; look through it, then {typed('doctor')} -C {path}")
    return 0


def site_file(name: str) -> str:
    """Return the text of the file.

    :param name: what the system is to be called.
    """
    status, nodes = inventory.output_of(discovery.NODES)
    _, limits = inventory.output_of(discovery.LIMITS)
    kinds = discovery.node_kinds(nodes, limits) if status == 0 else []
    here = inventory.inventory()
    accounted = bool(kinds) and inventory.output_of(["sacct", "--noheader", "--allocations"])[0] == 0
    partitions = [_of_kind(kind, kinds, here, accounted) for kind in kinds] or [_this_machine(here)]
    origin = "Slurm (sinfo)" if kinds else "this machine: no scheduler answered (Slurm's sinfo)"
    return "\n".join(
        [
            f'"""{name}: written by containercheck site from {origin}, to be looked through before it is used.',
            "",
            "config/template.py explains every key, and has more of them.",
            '"""',
            "",
            "site_configuration = {",
            '    "systems": [',
            "        {",
            f'            "name": "{name}",',
            "            # From the name of this host; another login node has to match too.",
            f'            "hostnames": [r"{hostnames(socket.gethostname())}"],',
            f'            "modules_system": "{_modules(here)}",  # {here["modules"] or "no module command here"}',
            '            "partitions": [',
            *(line for lines in partitions for line in lines),
            "            ],",
            "        }",
            "    ],",
            '    "environments": [{"name": "builtin", "cc": "mpicc", "cxx": "mpicxx", "ftn": "mpif90"}],',
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


def _modules(here: Mapping[str, Any]) -> str:
    if here["modules"].startswith("Lmod"):
        return "lmod"
    return "tmod4" if here["modules"] else "nomod"


def _of_kind(kind: NodeKind, kinds: Sequence[NodeKind], here: Mapping[str, Any], accounted: bool) -> list[str]:
    """Return the lines of a partition whose nodes are of one kind.

    :param accounted: whether Slurm's accounting answers.
    """
    feature = discovery.distinguishing(kind, kinds) if kind.others else ""
    same = [other for other in kinds if other.partition == kind.partition]
    number = same.index(kind) + 1
    name = re.sub(r"\W", "_", kind.partition + (f"_{feature or number}" if kind.others else ""))
    access = [f"--partition={kind.partition}"] + ([f"--constraint={feature}"] if feature else [])
    notes = [f"# {kind.nodes} node(s) of this kind, {kind.in_service} of them in service now (sinfo)."]
    if kind.others and not feature:
        notes.append("# The partition has other nodes too, and no feature tells these from them: add one to access.")
    notes.append("# Whether jobs need an account or a quality of service, sinfo does not say: add --account=... here.")
    starts = [plugin for plugin in here["pmi"] if _STARTS_RANKS.match(plugin)]
    launcher = "srun" if starts else "mpirun"
    why = f"srun has {', '.join(starts)}" if starts else "srun has no PMI with which it starts ranks (srun --mpi=list)"
    scheduler = "slurm" if accounted else "squeue"
    lines = [
        "{",
        f'    "name": "{name}",',
        f'    "scheduler": "{scheduler}",  # sacct {"answers" if accounted else "does not answer"}',
        f'    "launcher": "{launcher}",  # {why}',
        *(f"    {note}" for note in notes),
        f'    "access": {_list(access)},',
        '    "environs": ["builtin"],',
    ]
    limit = discovery.reframe_time(kind.time_limit)
    lines += [f'    "time_limit": "{limit}",'] if limit else ["    # No time limit: sinfo says that there is none."]
    lines += [
        "    # The architecture (arch, by archspec's name) is left to be detected, in a job.",
        *_processor(kind.processors, kind.sockets, kind.cores, kind.threads),
    ]
    if kind.gpus:
        lines += [
            "    # sinfo does not say which architecture the GPUs have (sm_80, gfx90a).",
            f'    "devices": [{{"type": "gpu", "model": "{kind.gpu_type}", "num_devices": {kind.gpus}}}],',
            '    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],',
        ]
    extras = [f'"max_nodes": {max(1, kind.nodes)}', f'"memory_per_node": {kind.memory} << 20']
    return _indented([*lines, *_platforms(here), *_extras(extras), "},"])


def _this_machine(here: Mapping[str, Any]) -> list[str]:
    processor = here["processor"]
    threads = max(1, processor["processors"] // max(1, processor["cores"]))
    launcher = "mpirun" if here["mpi"] else "local"
    lines = [
        "{",
        '    "name": "default",',
        '    "scheduler": "local",',
        f'    "launcher": "{launcher}",  # {"an MPI library is here" if here["mpi"] else "no MPI library is here"}',
        '    "environs": ["builtin"],',
        *_processor(
            processor["processors"], processor["sockets"], processor["cores"] // max(1, processor["sockets"]), threads
        ),
    ]
    return _indented([*lines, *_platforms(here), "},"])


def _processor(processors: int, sockets: int, cores: int, threads: int) -> list[str]:
    return [
        '    "processor": {',
        f'        "num_cpus": {processors},',
        f'        "num_cpus_per_core": {max(1, threads)},',
        f'        "num_cpus_per_socket": {max(1, cores * max(1, threads))},',
        f'        "num_sockets": {max(1, sockets)},',
        "    },",
    ]


def _platforms(here: Mapping[str, Any]) -> list[str]:
    """Return the lines about container runtimes: those that are on the PATH here."""
    names = {runtime.name for runtime in RUNTIMES}
    usable = [runtime for runtime in here["runtimes"] if runtime["name"] in names and not runtime["problem"]]
    if not usable:
        return [
            "    # No container runtime is on the PATH here: name it, with its modules.",
            '    "container_platforms": [],',
        ]
    where = ", ".join(f"{runtime['name']}: {runtime['path']}" for runtime in usable)
    entries = ", ".join(f'{{"type": "{runtime["name"]}"}}' for runtime in usable)
    return [f"    # On the PATH of this host ({where}); nodes need it too.", f'    "container_platforms": [{entries}],']


def _extras(entries: Sequence[str]) -> list[str]:
    return [
        '    "extras": {',
        '        "containercheck": {',
        *(f"            {entry}," for entry in entries),
        "            # Caches lie below the home directory; where nodes do not see that, name others:",
        '            # "image_cache": "/shared/containercheck/images",',
        "        }",
        "    },",
    ]


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]
