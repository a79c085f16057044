"""Start the ranks of containers once before the rounds (standard library only, Python 3.6 or newer; in the job).

The side's own launcher starts ``mpi-ranks`` in its container, a program that prints its launcher's name
(checks/src/ranks). Launchers and ranks speak PMIx or PMI, and two releases may be incompatible. The ranks then end in
MPI_Init, or each runs as its own job. Known ways to start them are tried (:func:`ways`); ``subject.started.json`` has
the one that worked. If both should be compatible, no other way is tried: the check must find that fault.

A container without started ranks has no rounds. The job then tries possible causes (confirmation.py): first those that
only the start can show (:func:`causes`), then differences in the observations of the sides.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from containercheck.job import contract, inventory, launch, processes, texts
from containercheck.job.explain.causes import MPI, PLUGIN, Cause, Change
from containercheck.job.outputs import reasons
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reasons import CAUSE, ERROR
from containercheck.job.single_run import run_once

#: Seconds for the ranks to find each other.
PATIENCE = 120


class NotStarted(Exception):
    """Report that the ranks of a container do not start as one job; the message has the reason and a remedy.

    :ivar library: the image's MPI; empty if it printed nothing.
    :ivar seconds: duration of the start.
    """

    def __init__(self, reason: str, library: str = "", seconds: float = 0.0) -> None:
        """Keep the observations."""
        super().__init__(reason)
        self.library, self.seconds = library, seconds


class Way(NamedTuple):
    """Describe a way to start the ranks.

    ``words`` come before the container runtime's, ``label`` describes it in the results.
    """

    words: str
    label: str


#: Advice if no way works; the first if versions of PMIx differ.
OTHER_IMAGE = "Use an image with the host's MPI (-S release=, or the site's extras), or check"
ADVICE = (
    "the variables and directories that reach the container, and its limits; "
    f"the output of the ranks is in {contract.TRIALS}/ of the stage directory"
)
#: Patterns of launchers' versions in their output.
LAUNCHERS = {"Open MPI": r"\(Open MPI\) (\S+)", "Slurm": r"^slurm\S* (\S+)", "MPICH": r"Version: +(\S+)"}
#: The launcher of the job, unchanged.
PLAIN = Way("", "by the job's launcher")
#: Open MPI 5 starts ranks through PRRTE, which does not set the variables by which Open MPI 4 detects a PMIx server:
#: its ranks start as singletons. ``JSM_JSRUN_PORT`` is a variable of IBM's launcher; with it, ranks use PMIx only (Open
#: MPI 4.1, orte/mca/schizo/jsm/schizo_jsm.c). PRRTE also hands on the path of the host's own plugins.
AS_JSM = Way(
    "env -u OMPI_MCA_mca_base_component_path JSM_JSRUN_PORT=0",
    "by the job's launcher, with the environment that makes Open MPI 4 use PMIx (JSM_JSRUN_PORT)",
)
#: On one node, the image's own launcher can start the ranks inside the container, without the host's launcher.
INSIDE = Way("", "by the image's own mpirun, inside one container")
#: In containers with their own network it does so on each node, without the host's launcher.
OWN_NETWORK = Way("", "by the image's own mpirun, in one container on each node, with a network of its own")

#: Most PMI plugins that are tried.
MOST_PLUGINS = 3


def other_plugins(launcher: str, plugins: Iterable[str], library: str) -> List[str]:
    """Return the PMI plugins of srun that a launcher does not use, the likeliest for an image's MPI first.

    >>> other_plugins("srun --mpi=pmi2", ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4"], "Open MPI v4.1.4")
    ['pmix', 'pmix_v4', 'cray_shasta']
    """
    used = launch.PLUGIN_OPTION.findall(launcher) or [os.environ.get("SLURM_MPI_TYPE", "")]
    likely = "pmix" if "Open MPI" in library else "pmi2"
    others = [name for name in plugins if name != "none" and name not in used]
    return sorted(others, key=lambda name: (not name.startswith(likely), name))[:MOST_PLUGINS]


class Host(NamedTuple):
    """Hold name and version of the host's ``launcher``, and the version of its ``pmix``, if any."""

    launcher: str
    pmix: str


class Seen(NamedTuple):
    """Hold the output of the ranks.

    ``status`` is that of the launcher, None if it was ended at its limit. ``sizes`` has the size of its job for each
    rank that passed MPI_Init. ``library`` and ``own`` are the image's MPI and its PMIx, ``server`` is the PMIx server
    that the ranks found; empty if not printed. ``last`` is the last line that gives a reason; ``error`` is that line if
    it states an error, else empty.
    """

    status: Optional[int]
    sizes: List[int]
    library: str
    own: str
    server: str
    last: str
    error: str = ""


def read(text: str, status: Optional[int]) -> Seen:
    """Read the output of the ranks.

    :param text: the whole output.
    """

    def first(pattern: str) -> str:
        match = re.search(pattern, text, re.MULTILINE)
        return match[1] if match else ""

    sizes = [int(size) for size in re.findall(r"^rank \d+ of (\d+)$", text, re.MULTILINE)]
    number = r"[^\d\n]*(\d+(?:\.\d+)*)"
    last = texts.sanitized(reasons.why(text, ""))
    # MPICH prints "MPICH Version:", a tab, and its number.
    library = texts.printable(" ".join(first(r"^library (.*)$").replace("Version:", "").split()))
    error = texts.sanitized(reasons.error(text, "", (CAUSE, ERROR)))
    return Seen(status, sizes, library, first("^own" + number), first("^server" + number), last, error)


def is_one_job(seen: Seen, ranks: int) -> bool:
    """Return whether all ranks started, in one job."""
    return seen.status == 0 and seen.sizes == [ranks] * ranks


def ways(seen: Seen, host: Host, nodes: int) -> List[Way]:
    """Return the ways to try if the plain way did not start the image's own MPI.

    :param seen: outcome of the plain way.
    :param nodes: nodes of the job.
    """
    candidates = []
    if re.match(r"Open MPI v?[34]\.", seen.library) and re.match(r"Open MPI [5-9]", host.launcher):
        candidates.append(AS_JSM)
    if nodes == 1 and "Open MPI" in seen.library and host.pmix.split(".")[0] != seen.own.split(".")[0]:
        candidates.append(INSIDE)
    return candidates


def ask_host(words: str) -> Host:
    """Return name and version of a launcher, and the version of its PMIx.

    :param words: its command, with options.
    """
    command = shlex.split(words)[0]
    output = processes.output_of([command, "--version"], PATIENCE, stderr=subprocess.STDOUT)
    versions = ((launcher, re.search(pattern, output, re.MULTILINE)) for launcher, pattern in LAUNCHERS.items())
    name = next((f"{launcher} {match[1]}" for launcher, match in versions if match), command)
    output = processes.output_of(["bash", "-c", f"{words} printenv PMIX_VERSION"], PATIENCE, stderr=subprocess.STDOUT)
    offered = re.search(r"^(\d[\d.]*)", output, re.MULTILINE)
    return Host(name, offered[1] if offered else "")


def outcome(seen: Seen, ranks: int) -> str:
    """Return in words how many ranks started."""
    if seen.status is None:
        return f"they did not come up within {PATIENCE} s"
    if ranks > 1 and set(seen.sizes) == {1}:
        return f"{len(seen.sizes)} of {ranks} ranks came up, each as a job of its own (singletons)"
    if seen.sizes:
        return f"{len(seen.sizes)} of {ranks} ranks came up, of a job of {max(seen.sizes)}"
    return "none came through MPI_Init"


def explain(seen: Seen, ranks: int, host: Host) -> str:
    """Return the reason why the ranks did not start as one job of the right size, in one line.

    Their output comes first; versions of PMIx are a reason only if they differ.
    """
    pmix = f"PMIx {host.pmix}" if host.pmix else "no PMIx"
    image = re.sub(r"^Open MPI v", "Open MPI ", seen.library)
    if not image:
        return f"the ranks cannot be started in the container ({host.launcher}): {seen.last}"
    own = f"has PMIx {seen.own}" if seen.own else "has no PMIx"
    lost = "; the launcher's variables do not reach them" if host.pmix and not seen.server else ""
    printed = f"the ranks printed: {seen.error}; " if seen.error else ""
    if host.pmix == seen.own:
        return f"{printed}{outcome(seen, ranks)}{lost} (host: {host.launcher}, image: {image}, both with {pmix})"
    versions = f"the host starts ranks with {pmix} ({host.launcher}), the image's {image} {own}"
    return f"{printed}{versions}: {outcome(seen, ranks)}{lost}"


class RankStart:
    """Start the ranks of a side, or of the same side with a remedy, as a trial.

    :param name: of the side.
    :ivar facts: the number of ``ranks`` and ``nodes``; the ``launcher``'s words; whether the image's launcher starts
        the ranks in an ``own_network``; whether the ``host_mpi`` runs in the container (sides/commands.py).
    """

    def __init__(self, name: str) -> None:
        """Read the commands of the side."""
        side = launch.Launch(name)
        self.name, self.facts = name, side.container["ranks"]
        #: Words before the container, for any way; see job/runtime_start.py.
        self._words: List[str] = side.words.get("start", [])

    def comes_up(self) -> bool:
        """Start the ranks like the runs of the side; return whether all started in one job."""
        way = INSIDE if launch.Launch(self.name).words.get("is-inside") else PLAIN
        return is_one_job(self._run(way), self.facts["ranks"])

    def find(self) -> Dict[str, str]:
        """Find a way and set it for the rounds; return its name, and the reason if it is not the plain one.

        :raises NotStarted: no way works.
        """
        ranks = self.facts["ranks"]
        plain = OWN_NETWORK if self.facts["own_network"] else PLAIN
        if not self._has_program():
            why = "not tried before the rounds, because the image has no mpi-ranks"
            return {"started": f"{plain.label}; {why}", "because": ""}
        began = time.monotonic()
        first = self._run(plain)
        seconds = time.monotonic() - began
        if is_one_job(first, ranks):
            return {"started": plain.label, "because": ""}
        if plain is OWN_NETWORK:
            printed = f"{first.last}. Their output is in {contract.TRIALS}/"
            raise NotStarted(f"{plain.label}: {outcome(first, ranks)}: {printed}", first.library, seconds)
        host = ask_host(self.facts["launcher"])
        why = explain(first, ranks, host)
        for way in [] if self.facts["host_mpi"] else ways(first, host, self.facts["nodes"]):
            self._set(way)
            if is_one_job(self._run(way), ranks):
                return {"started": way.label, "because": why}
        self._set(PLAIN)
        advice = "Check" if host.pmix == first.own else OTHER_IMAGE
        raise NotStarted(f"{why}. {advice} {ADVICE}", first.library, seconds)

    def _set(self, way: Way) -> None:
        """Let the side's commands start the ranks this way."""
        launch.note(self.name, {"start": [*self._words, *way.words.split()], "is-inside": way is INSIDE})

    def _run(self, way: Way) -> Seen:
        """Start the ranks, and return their output."""
        command = contract.START_INSIDE if way is INSIDE else contract.START_RANKS
        status, text = self._output_of(command)
        return read(text, status)

    def _output_of(self, command: str) -> Tuple[Optional[int], str]:
        """Run a command of the side; return its status (None if it was ended at its limit) and its output."""
        number = 1 + sum(1 for _ in Path(contract.TRIALS).glob("*-*"))
        output = Path(contract.TRIALS, f"{number}-{self.name}")
        run = run_once(launch.Launch(self.name).script(command), output, PATIENCE, [], 0)
        text = "".join(texts.tail(output / name, texts.READ) for name in (contract.OUT, contract.ERR))
        return None if run["timed_out"] else run["status"], text

    def _has_program(self) -> bool:
        """Return whether the image has ``mpi-ranks``.

        Only one container is started: Apptainer fails if a rank ends before another has joined it.
        """
        return self._output_of(contract.LOOK_UP)[0] == 0


def start_all(facts: Facts) -> Dict[str, NotStarted]:
    """Find a way to start the ranks of each prepared container, and save it.

    :returns: by side, the reason why its ranks do not start; its file of lost sides has it too.
    """
    failed = {}
    for name in [side.name for side in facts.sides if side.contained]:
        if Path(contract.lost_file(name)).exists() or "ranks" not in launch.Launch(name).container:
            continue
        try:
            Path(contract.started_file(name)).write_text(json.dumps(RankStart(name).find()))
        except NotStarted as error:
            failed[name] = error
            Path(contract.lost_file(name)).write_text(f"error: {error}\n")
            print(f"error: {error}", file=sys.stderr, flush=True)
    return failed


def causes(name: str, library: str) -> List[Cause]:
    """Return as causes the PMI plugins with which srun may start the ranks of a side.

    :param library: the image's MPI.
    """
    facts = launch.Launch(name).container["ranks"]
    if Path(shlex.split(facts["launcher"])[0]).name != "srun":
        return []
    sentence, source = "srun starts the ranks with a PMI plugin that they do not take", "Slurm MPI guide"
    found = []
    for plugin in other_plugins(facts["launcher"], inventory.pmi_plugins(), library):
        # The host's MPI is also bare's: the partition's setting starts it, and srun reads the variable.
        place = f"the site's extras: image_launcher_options: ['--mpi={plugin}']"
        if facts["host_mpi"]:
            place = f"the partition's env_vars: [['SLURM_MPI_TYPE', '{plugin}']]"
        change = Change(PLUGIN, plugin)
        found.append(Cause("PMI plugin", plugin, sentence, f"put it into {place}", source, MPI, 60, change=change))
    return found
