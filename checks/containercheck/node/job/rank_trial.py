"""Start the ranks of a container once before the rounds (standard library only, Python 3.6 or newer; run in the job).

    python3 checks/containercheck ranks --ranks 4 --launcher 'mpirun -np 4' subject

runs the side's command for that (launch.py): its launcher, its container, and in it ``mpi-ranks``, a program of ours
that prints who started it (checks/src/ranks). Launchers and ranks speak PMIx or PMI, and two releases may be
incompatible: the ranks then end in MPI_Init, or each runs as a job of its own. Known remedies are tried (:func:`ways`),
and ``subject.started.json`` names the one that worked. If none does, one line names launcher and image.
Nothing is tried where the two should be compatible: if ranks then do not start, the check is there to find that.
"""

import argparse
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from containercheck.node import container_runtimes, contract, inventory, texts
from containercheck.node.job import launch, processes
from containercheck.node.job.single_run import run_once
from containercheck.node.outputs import reasons
from containercheck.node.outputs.boilerplate import CAUSE, ERROR

#: Seconds that the ranks have to find each other.
PATIENCE = 120


class RanksError(Exception):
    """Launcher and image are not compatible; the message names both and says what to do."""


class Way(NamedTuple):
    """A way to start the ranks.

    ``words`` come before the container runtime's, ``said`` describes it in the results.
    """

    words: str
    said: str

    @property
    def untried(self) -> Dict[str, str]:
        """What the results say of it where the image has nothing to try it with."""
        return {
            "started": f"{self.said}; not tried before the rounds, because the image has no mpi-ranks",
            "because": "",
        }


#: What to do if no way works; the first where versions of PMIx differ.
OTHER_IMAGE = "Use an image whose MPI is the host's (-S release=, or the site's extras), or check"
ADVICE = (
    "what the container lets in, and its limits; "
    f"what the ranks printed is in {contract.TRIALS}/ of the stage directory"
)
#: Patterns of the version that launchers print.
LAUNCHERS = {"Open MPI": r"\(Open MPI\) (\S+)", "Slurm": r"^slurm\S* (\S+)", "MPICH": r"Version: +(\S+)"}
#: The launcher of the job, unchanged.
PLAIN = Way("", "by the job's launcher")
#: Open MPI 5 starts ranks through PRRTE, which does not set the variables by which Open MPI 4 detects a PMIx server:
#: its ranks start as singletons. ``JSM_JSRUN_PORT`` is a variable of IBM's launcher, with which ranks use PMIx only
#: (Open MPI 4.1, orte/mca/schizo/jsm/schizo_jsm.c). PRRTE also hands on the path of the host's own plugins.
AS_JSM = Way(
    "env -u OMPI_MCA_mca_base_component_path JSM_JSRUN_PORT=0",
    "by the job's launcher, with the environment that makes Open MPI 4 use PMIx (JSM_JSRUN_PORT)",
)
#: On one node, the image's own launcher can start the ranks inside the container, without the host's.
INSIDE = Way("", "by the image's own mpirun, inside one container")

#: In containers with a network of their own it does so on each node, without the host's.
OWN_NETWORK = Way("", "by the image's own mpirun, in one container on each node, with a network of its own")


#: Variables of runtimes that change what a container sees, after the beginning of their names; and, for a container's
#: own variables, those that keep ranks from finding each other.
_OF_CONTAINERS = (
    "CLEANENV",
    "CONTAIN",
    "CONTAINALL",
    "NO_MOUNT",
    "NO_HOME",
    "HOME",
    "WORKDIR",
    "PID",
    "IPC",
    "NET",
    "UTS",
    "USERNS",
    "FAKEROOT",
    "WRITABLE",
    "WRITABLE_TMPFS",
    "BIND",
    "BINDPATH",
    "MOUNT",
    "SECURITY",
    "DROP_CAPS",
    "ENV_FILE",
)
_SET_IN_CONTAINERS = re.compile(r"(OMPI|OPAL|PMIX|PRTE|PMI|UCX|FI|MPICH|I_MPI|HWLOC|HYDRA)_|LD_(LIBRARY_PATH|PRELOAD)$")
#: Variables of the job by which MPI is told how to talk and start: they reach containers too (explain/rules.ini
#: has what each does), but for that of ours (sides/commands.py).
_OF_MPI = re.compile(r"(OMPI|PMIX|PRTE)_MCA_|(UCX|FI|PSM2|PSM3|MPICH|I_MPI|MPIR_CVAR)_")
_OURS = "PMIX_MCA_gds"
#: The option of srun that chooses a PMI plugin.
_PLUGIN = re.compile(r"--mpi[= ](\S+)")
#: Most variables that are tried one by one, and most PMI plugins.
MOST_TRIED, MOST_PLUGINS = 6, 3
#: Starts that must succeed with a remedy, and starts without it, in turn with them, that must fail: then it is proven.
#: Where each start fails by chance, whatever its probability, one of all remedies is proven wrongly in less than one in
#: a hundred jobs.
TIMES = 4


def suspects(names: Iterable[str]) -> List[str]:
    """Return the variables of the job that may keep ranks in containers from finding each other.

    Those of runtimes come first, which bare does not have.

    >>> suspects(["APPTAINER_CLEANENV", "APPTAINER_CACHEDIR", "APPTAINERENV_PMIX_MCA_gds", "APPTAINERENV_LANG", "PATH"])
    ['APPTAINER_CLEANENV', 'APPTAINERENV_PMIX_MCA_gds']
    >>> suspects(["OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "UCX_TLS", "SINGULARITY_PID"])
    ['SINGULARITY_PID', 'OMPI_MCA_btl', 'UCX_TLS']
    """
    names, found = list(names), []
    beginnings = [runtime.settings for runtime in container_runtimes.RUNTIMES if runtime.settings]
    for name in names:
        for start in beginnings:
            inside = start.rstrip("_") + "ENV_"
            is_option = name.startswith(start) and name[len(start) :] in _OF_CONTAINERS
            if is_option or (name.startswith(inside) and _SET_IN_CONTAINERS.match(name[len(inside) :])):
                found.append(name)
    of_job = [name for name in names if _OF_MPI.match(name) and name != _OURS]
    return [*found, *of_job][:MOST_TRIED]


def other_plugins(launcher: str, plugins: Iterable[str], library: str) -> List[str]:
    """Return the PMI plugins of srun that a launcher does not use, the likeliest for an image's MPI first.

    >>> other_plugins("srun --mpi=pmi2", ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4"], "Open MPI v4.1.4")
    ['pmix', 'pmix_v4', 'cray_shasta']
    """
    used = _PLUGIN.findall(launcher) or [os.environ.get("SLURM_MPI_TYPE", "")]
    likely = "pmix" if "Open MPI" in library else "pmi2"
    others = [name for name in plugins if name != "none" and name not in used]
    return sorted(others, key=lambda name: (not name.startswith(likely), name))[:MOST_PLUGINS]


def with_plugin(command: str, plugin: str) -> str:
    """Return a command of srun with another PMI plugin.

    >>> with_plugin("srun --mpi=pmi2 -n 2 code", "pmix"), with_plugin("srun -n 2 code", "pmix")
    ('srun --mpi=pmix -n 2 code', 'srun --mpi=pmix -n 2 code')
    """
    if _PLUGIN.search(command):
        return _PLUGIN.sub(f"--mpi={plugin}", command)
    return re.sub(r"\bsrun(?= )", f"srun --mpi={plugin}", command, count=1)


class Host(NamedTuple):
    """The host's side: name and version of its ``launcher``, and version of the ``pmix`` that it offers, if any."""

    launcher: str
    pmix: str


class Seen(NamedTuple):
    """What the ranks printed.

    ``status`` is that of the launcher, None if it was ended at its limit; ``sizes`` has the size of its job for each
    rank that came through MPI_Init. ``library`` and ``own`` are the image's MPI and its PMIx, ``server`` is the PMIx
    server that the ranks found; empty if nothing was printed of them. ``last`` is the last line that gives a reason;
    ``error`` is that line if it states an error, else empty.
    """

    status: Optional[int]
    sizes: List[int]
    library: str
    own: str
    server: str
    last: str
    error: str = ""


def read(text: str, status: Optional[int]) -> Seen:
    """Read what the ranks printed.

    :param text: all that was printed.
    """

    def first(pattern: str) -> str:
        match = re.search(pattern, text, re.MULTILINE)
        return match[1] if match else ""

    sizes = [int(size) for size in re.findall(r"^rank \d+ of (\d+)$", text, re.MULTILINE)]
    number = r"[^\d\n]*(\d+(?:\.\d+)*)"
    last = texts.sanitized(reasons.why(text, ""))
    # MPICH says "MPICH Version:", a tab, and its number.
    library = texts.printable(" ".join(first(r"^library (.*)$").replace("Version:", "").split()))
    error = texts.sanitized(reasons.error(text, "", (CAUSE, ERROR)))
    return Seen(status, sizes, library, first("^own" + number), first("^server" + number), last, error)


def is_one_job(seen: Seen, ranks: int) -> bool:
    """Tell whether all ranks came up, and in one job."""
    return seen.status == 0 and seen.sizes == [ranks] * ranks


def ways(seen: Seen, host: Host, nodes: int) -> List[Way]:
    """Return the ways to try if the image's own MPI did not start the plain way.

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
    output, name = processes.output_of([command, "--version"], PATIENCE, stderr=subprocess.STDOUT), command
    for launcher, pattern in LAUNCHERS.items():
        match = re.search(pattern, output, re.MULTILINE)
        if match:
            name = f"{launcher} {match[1]}"
            break
    output = processes.output_of(["bash", "-c", f"{words} printenv PMIX_VERSION"], PATIENCE, stderr=subprocess.STDOUT)
    offered = re.search(r"^(\d[\d.]*)", output, re.MULTILINE)
    return Host(name, offered[1] if offered else "")


def outcome(seen: Seen, ranks: int) -> str:
    """Return how many ranks came up, in words."""
    if seen.status is None:
        return f"they did not come up within {PATIENCE} s"
    if ranks > 1 and set(seen.sizes) == {1}:
        return f"{len(seen.sizes)} of {ranks} ranks came up, each as a job of its own (singletons)"
    if seen.sizes:
        return f"{len(seen.sizes)} of {ranks} ranks came up, of a job of {max(seen.sizes)}"
    return "none came through MPI_Init"


def explain(seen: Seen, ranks: int, host: Host) -> str:
    """Return why the ranks did not come up as one job of the right size, in one line.

    What they printed comes first; versions of PMIx are a reason only where they differ.
    """
    pmix = f"PMIx {host.pmix}" if host.pmix else "no PMIx"
    image = re.sub(r"^Open MPI v", "Open MPI ", seen.library)
    if not image:
        return f"the ranks cannot be started in the container ({host.launcher}): {seen.last}"
    own = f"has PMIx {seen.own}" if seen.own else "has no PMIx"
    lost = "; what the launcher sets in their environment does not reach them" if host.pmix and not seen.server else ""
    printed = f"the ranks printed: {seen.error}; " if seen.error else ""
    if host.pmix == seen.own:
        return f"{printed}{outcome(seen, ranks)}{lost} (host: {host.launcher}, image: {image}, both with {pmix})"
    versions = f"the host starts ranks with {pmix} ({host.launcher}), the image's {image} {own}"
    return f"{printed}{versions}: {outcome(seen, ranks)}{lost}"


class Trial:
    """Trial starts of a side's ranks.

    :param side: the side whose container they run in.
    :param ranks: number of ranks.
    """

    def __init__(self, side: str, ranks: int) -> None:
        """Read the words before the container."""
        self.side, self.ranks = side, ranks
        self._runs = 0
        #: Words before the container, whatever the way; see node/job/runtime_start.py.
        self.words: List[str] = launch.Launch(side).words.get("start", [])

    def start(self, way: Way) -> Seen:
        """Start the ranks this way, and return what they printed."""
        self._set(way)
        command = contract.START_INSIDE if way is INSIDE else contract.START_RANKS
        return self._read(launch.Launch(self.side).script(command))

    def _set(self, way: Way) -> None:
        """Have the side's commands start the ranks this way."""
        launch.note(self.side, {"start": [*self.words, *way.words.split()], "is-inside": way is INSIDE})

    def _read(self, script: str) -> Seen:
        """Run a script, and return what the ranks printed."""
        status, text = self._run(script)
        return read(text, status)

    def _run(self, script: str) -> Tuple[Optional[int], str]:
        """Run a script; return its status (None if it was ended at its limit) and its output."""
        self._runs += 1
        output = Path(contract.TRIALS, f"{self._runs}-{self.side}")
        run = run_once(script, output, PATIENCE, [], 0)
        text = "".join(texts.tail(output / name, texts.READ) for name in (contract.OUT, contract.ERR))
        return None if run["timed_out"] else run["status"], text

    def _has_program(self) -> bool:
        """Tell whether the image has ``mpi-ranks``.

        Only one container is started: Apptainer fails if a rank ends before another has joined it.
        """
        return self._run(launch.Launch(self.side).script(contract.LOOK_UP))[0] == 0

    def confirm(self, way: Way) -> Dict[str, str]:
        """Start the ranks in the only way that there is; return what the results say of it.

        :raises RanksError: they do not come up as one job.
        """
        if not self._has_program():
            return way.untried
        seen = self.start(way)
        if not is_one_job(seen, self.ranks):
            came = f"{len(seen.sizes)} of {self.ranks} ranks came up"
            raise RanksError(f"{way.said}: {came}: {seen.last}. What they printed is in {contract.TRIALS}/")
        return {"started": way.said, "because": ""}

    def find(self, launcher: str, nodes: int, brings_own: bool) -> Dict[str, str]:
        """Find a way and set it for the rounds; return what the results say of it, and why not the plain one.

        :param launcher: the launcher's command, with its options.
        :param nodes: nodes of the job.
        :param brings_own: whether the image's own MPI is meant to run, and not the host's (the generic variant).
        :raises RanksError: no way works.
        """
        if not self._has_program():
            return PLAIN.untried
        first = self.start(PLAIN)
        if is_one_job(first, self.ranks):
            return {"started": PLAIN.said, "because": ""}
        host = ask_host(launcher)
        why = explain(first, self.ranks, host)
        for way in ways(first, host, nodes) if brings_own else []:
            if is_one_job(self.start(way), self.ranks):
                return {"started": way.said, "because": why}
        culprit = self._culprit(why)
        if culprit:
            raise RanksError(
                f"{why}. {culprit} {contract.PROVEN}: without it they come up as one job. Unset it where jobs are "
                "started: a module, a profile or the site's file sets it (singularity#1110)"
            )
        plugin = self._plugin(launcher, first.library, why)
        if plugin:
            # The host's MPI is that of bare too: what starts it is the partition's, and srun reads the variable.
            where = (
                f"the site's extras: image_launcher_options: ['--mpi={plugin}']"
                if brings_own
                else f"the partition's env_vars: [['SLURM_MPI_TYPE', '{plugin}']]"
            )
            raise RanksError(
                f"{why}. The PMI plugin of srun {contract.PROVEN}: with --mpi={plugin} they come up as one job. Put "
                f"it into {where}"
            )
        raise RanksError(f"{why}. {'Check' if host.pmix == first.own else OTHER_IMAGE} {ADVICE}")

    def _plugin(self, launcher: str, library: str, why: str) -> str:
        """Return the PMI plugin of srun by which the ranks come up as one job; empty where there is none."""
        if Path(shlex.split(launcher)[0]).name != "srun":
            return ""
        for name in other_plugins(launcher, inventory.pmi_plugins(), library):
            if self._is_proven(functools.partial(self._start_by, name), why):
                return name
        return ""

    def _start_by(self, plugin: str) -> Seen:
        """Start the ranks with another PMI plugin of srun, and return what they printed."""
        self._set(PLAIN)
        return self._read(with_plugin(launch.Launch(self.side).script(contract.START_RANKS), plugin))

    def _culprit(self, why: str) -> str:
        """Return the variable of the job without which the ranks come up as one job; empty where there is none."""
        for name in suspects(sorted(os.environ)):
            way = Way(f"env -u {name}", f"without {name}")
            if self._is_proven(functools.partial(self.start, way), why):
                return name
        return ""

    def _is_proven(self, start: Callable[[], Seen], why: str) -> bool:
        """Start the ranks with a remedy and without it, in turn; return whether all came up with it, and none without.

        :param start: starts them with the remedy.
        :param why: why they did not come up the first time.
        :raises RanksError: they came up without it too.
        """
        for _ in range(TIMES):
            if not is_one_job(start(), self.ranks):
                return False
            if is_one_job(self.start(PLAIN), self.ranks):
                raise RanksError(
                    f"{why}. Started again in the same way, they came up: the start fails only sometimes, and nothing "
                    f"is proven. What the ranks printed is in {contract.TRIALS}/ of the stage directory"
                )
        return True


def main() -> None:
    """Find a way and write it down, or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True, help="how many there must be")
    parser.add_argument("--nodes", type=int, default=1, help="on so many nodes")
    parser.add_argument("--launcher", required=True, help="command of the launcher, with its options")
    parser.add_argument("--host-mpi", action="store_true", help="the host's MPI runs in the container")
    parser.add_argument("--own-network", action="store_true", help="the image's launcher starts them, on all nodes")
    parser.add_argument("side")
    arguments = parser.parse_args()
    processes.adopt_orphans()
    shutil.rmtree(contract.TRIALS, ignore_errors=True)
    try:
        trial = Trial(arguments.side, arguments.ranks)
        if arguments.own_network:
            outcome = trial.confirm(OWN_NETWORK)
        else:
            outcome = trial.find(arguments.launcher, arguments.nodes, not arguments.host_mpi)
        Path(contract.started_file(arguments.side)).write_text(json.dumps(outcome))
    except RanksError as error:
        sys.exit(f"error: {error}")
