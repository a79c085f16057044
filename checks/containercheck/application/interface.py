"""What an application file may state: the variables of a check, and helpers for its inputs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from containercheck.application import assignments, declarations, full_axes
from containercheck.application.facts import PROGRAM, Answer, Figure, Identity, Step, Work
from containercheck.node import texts
from containercheck.site import node_commands, sites


class ApplicationFacts(rfm.RegressionTest):
    """An application, in three variants, on a number of nodes: facts only; what is done with them is in check.py."""

    #: How the application runs: on the host, in a container with the host's MPI, or in a self-contained container.
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    #: Nodes of the job.
    num_nodes = parameter(sites.node_counts(), loggable=True)

    #: Name of the definition file in ``images/``.
    recipe = variable(str)
    #: Source below ``checks/src`` of a program of the project's own, C, C++ or a script; the image has it on its PATH.
    source = variable(str, type(None), value=None)
    #: For C++: options that it is compiled with, its libraries last; the image's recipe has the same.
    compile_options = variable(typ.List[str], value=[])
    #: For C++: headers that it cannot do without, and Debian's package of each; without them the check is skipped.
    headers = variable(typ.Dict[str, str], value={})
    #: Debian packages that bring the bare program: ``ci/setup`` installs them, and a skip for want of it names them.
    #: They are read without running the file, and so have to be written down as they are.
    debian = variable(typ.List[str], value=[])
    #: Whether nobody can download program and input: both, with options and patterns, are the site's
    #: (software/licensed.py).
    sites_input = variable(typ.Bool, value=False)
    #: Environment of Spack in ``spack-envs/`` that brings the program.
    spack = variable(str, type(None), value=None)
    #: Easyconfig that brings it: a name in ``easyconfigs/`` or of EasyBuild's own, or a path.
    easybuild = variable(str, type(None), value=None)
    #: Where the program lies in the view of that environment, as its package installs it.
    view_directory = variable(str, value="bin")
    #: Pinned requirements from PyPI, a file below ``checks/src``, that bring the program; the image installs the same.
    requirements = variable(str, type(None), value=None)
    #: Pinned jars from a Maven repository, a file below ``checks/src``; the job finds them in ``jars/``.
    artifacts = variable(str, type(None), value=None)
    #: Family of the MPI that the program was built for, where it is not the one of the partition's launcher: ``mpich``
    #: (Intel MPI, MVAPICH and Cray MPI have its ABI too).
    mpi_family = variable(str, type(None), value=None)
    #: What the program reports.
    figures = variable(typ.List[Figure], value=[], loggable=False)
    #: What it computes.
    answers = variable(typ.List[Answer], value=[], loggable=False)
    #: Whether it has no figures on purpose: that it runs, and comes to the same answers, is all that it tells.
    only_runs = variable(typ.Bool, value=False)
    #: What it says of its own build, which bare and container should have in common.
    identity = variable(typ.List[Identity], value=[], loggable=False)
    #: Where it says how many ranks it ran with; None for a program that is not started by MPI's launcher.
    rank_count = variable(Answer, type(None), value=None, loggable=False)
    #: A program that starts the command in place of MPI's launcher, with its options.
    started_by = variable(str, type(None), value=None)
    #: Whether the program, which has no MPI, loads the host's in the integrated variant, bare and in the container.
    preloads_mpi = variable(typ.Bool, value=False)
    #: Code name of the Debian that the image is built from; empty for the site's choice (site/releases.py).
    release = variable(str, value="")
    #: Directory of the node into which the image is copied for the job; by default it runs from where it lies.
    image_directory = variable(str, value="")
    #: Container runtimes to compare, by name, as they are typed: the later ones are judged as successors of the first
    #: (ci/acceptance). None are compared by default.
    runtimes = variable(typ.Dict[str, str], value={}, loggable=True)
    #: Whether each of them runs an image that it built itself; else all run the same file.
    built_by_each = variable(typ.Bool, value=False)
    #: Ready images to compare in the same way: paths.
    compared_images = variable(typ.Dict[str, str], value={}, loggable=True)
    #: Whether it is unpacked into the stage directory, and runs from there.
    unpacked = variable(typ.Bool, value=False)
    #: Whether the program uses GPUs where the partition has any, in its ``devices``.
    gpu = variable(typ.Bool, value=False)
    #: Files and directories that containers have too, as ``path`` or ``path:target``.
    binds = variable(typ.List[str], value=[])
    #: More options for the container runtime.
    container_options = variable(typ.List[str], value=[])
    #: Files that every run writes and that figures or answers are read from.
    output_files = variable(typ.List[str], value=[])
    #: What follows the program's name in a case, where each has a program of its own.
    program_suffix = ""
    #: The commands of an application that runs in several steps; they take the place of executable and options.
    steps = variable(typ.List[Step], value=[], loggable=False)
    #: Commands that make the input, once, before all runs; for what takes more than a moment.
    input_commands = variable(typ.List[str], value=[])
    #: Commands that put the working directory into its first state before each run.
    reset_commands = variable(typ.List[str], value=[])
    #: Files that the job removes when it ends, so that none is left outside the stage directory.
    own_files = variable(typ.List[str], value=[])
    #: Ranks on a node; None for one on each core, or for each group of ``threads`` cores.
    ranks_per_node = variable(int, type(None), value=None)
    #: Threads of a rank; 0 for as many as make use of all the node's cores.
    threads = variable(int, value=1, loggable=True)
    #: Fewest ranks that the program makes sense with.
    min_ranks = variable(int, value=1)
    #: What a run of the embedded input works on; a property where that depends on the case. None for what nobody knows.
    work: Work | None = None

    #: Seconds for all rounds of a container check: they end sooner when every figure has its verdict.
    seconds = variable(float, int, value=60.0)
    #: So many rounds, whatever the verdict; 0 lets the verdict and the time decide. A bare check, which compares
    #: nothing, runs once.
    rounds = variable(int, value=0)
    #: Whether both sides run at the same time, each on half of the cores, and once more with the halves swapped: what
    #: the host of a virtual machine does then hits both alike (duets.py). ``yes``, ``no``, or ``auto``.
    duet = variable(str, value="no")
    #: Node-hours that a job may take; 0 for what its rounds and their limits come to.
    node_hours = variable(float, int, value=0)
    #: Whether the processors of a virtual machine are kept awake between and during the runs (node/job/awake.py).
    keep_awake = variable(typ.Bool, value=True)
    #: Seconds without disturbance that the first round waits for: ReFrame reads for a moment what the job before left.
    quiet = variable(float, int, value=2.0)
    #: Seconds that one run may take before it counts as hanging; in the full axes, where that takes longer.
    run_limit = variable(float, int, value=600.0)
    full_run_limit = variable(float, int, type(None), value=None)
    #: Accepted overhead in percent, for figures that name none of their own.
    tolerance = variable(float, int, value=5.0, loggable=True)

    #: The published input, where the site has it, in place of the embedded one; the check says what it is. A path,
    #: or an address that ends with ``#sha256=<digest>`` (node/build/downloads.py); also in the site's extras, inputs.
    published = variable(str, value="")
    #: What a plain run takes of the check's own axes, by parameter; other cases belong to the full axes.
    plain = variable(dict, value={}, loggable=False)
    #: Whether the cases of the full axes are generated too: ``-S full=yes``, or ``--mode=full`` with config/common.py.
    full = variable(typ.Bool, value=False)
    #: Whether this case belongs to the full axes, whatever ``plain`` says.
    full_only = variable(typ.Bool, value=False)

    #: What the job is expected to take; for ``ci/run --estimate``. Empty where the check does not say.
    expected = variable(dict, value={}, loggable=True)
    #: Why the check was not run; for the reports, which ReFrame's own does not tell.
    skip_reason = variable(str, value="", loggable=True)
    #: A row for each figure (results/row.py), as it is stored. For the reports.
    results = variable(typ.List[dict], value=[], loggable=True)
    #: What has to be said of the run beside its figures: rounds that were replaced, a job that ended early. For the
    #: reports.
    notes = variable(typ.List[str], value=[], loggable=True)
    #: The figures of each round, by side. For the reports, and for a later session that goes on from here.
    measured = variable(typ.List[dict], value=[], loggable=True)
    #: Path of a script that repeats one run of a side by itself (node/job/reproducer.py); empty where there were no
    #: rounds.
    reproducer = variable(str, value="", loggable=True)
    #: What was compared: sides, runtimes, images, layout, work, commands (results/earlier_rounds.py). For a later
    #: session, likewise.
    compared = variable(dict, value={}, loggable=True)
    #: ReFrame's report of an earlier session, whose rounds of the same case count (``ci/run --open``).
    earlier = variable(str, value="")
    #: What earlier sessions say of how far rounds spread, by partition, case and figure: a file that ``ci/run`` writes.
    known_spreads = variable(str, value="")
    #: What ran: runtimes, SHA-256 of the image, MPI libraries of each side, input. For the reports.
    provenance = variable(dict, value={}, loggable=True)
    #: Seconds that the application itself ran, all rounds together.
    application_seconds = variable(float, int, value=0.0, loggable=True)
    #: Seconds that the job had its nodes; 0 where it left no record.
    job_seconds = variable(float, int, value=0.0, loggable=True)

    valid_prog_environs = ["*"]
    build_system = "CustomBuild"
    sourcesdir = None

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        """Return what ReFrame logs of a check: all but ``env_vars``, whose values may be secrets, and its old name.

        ReFrame 4.10 reads all of it several times at each of its polls, and walks the stack because of ``variables``:
        that was most of the processor time that ReFrame takes beside what is measured.
        """
        of_reframe: Any = type(cls)
        return [one for one in of_reframe.loggable_attrs(cls) if one[0] not in ("variables", "env_vars")]

    # ReFrame runs hooks with always_last in the reverse of their order: this one is the last of all.
    @run_after("init", always_last=True)
    def leave_out_full_axes(self):
        """Generate no case of the full axes, unless somebody asks for them."""
        if self.full_only and not self.full:
            full_axes.leave_out(self)

    @run_after("init", always_last=True)
    def require_declarations(self):
        """Stop the session where the application file declares nothing that could be compared."""
        declarations.require(self)

    @run_after("setup")
    def require_known_variables(self):
        """Fail where the command line sets what does not exist: something else than was asked for would be measured."""
        assignments.require_known(type(self))

    @run_before("run", always_last=True)
    def require_figures(self):
        """Fail where hooks were to give the figures, and gave none."""
        if not self.figures and not self.only_runs:
            raise ReframeError(f"{type(self).__name__} has no figures: {declarations.NOTHING}")

    @property
    def contained(self) -> bool:
        """Whether the subject runs in a container."""
        return self.variant != "bare"

    @property
    def python(self) -> str:
        """Return the Python of the nodes, for scripts of ours that need 3.6 and its standard library only; quoted."""
        return node_commands.python_of(self.site)

    @property
    def known_work(self) -> Work | None:
        """What a run works on; None where nobody knows, as with the published input."""
        return None if self.site.input_of(type(self).__name__, self.published) else self.work

    @property
    def amount(self) -> float:
        """What a run of the embedded input works on in this case, in the unit of ``work``."""
        return self.work.amount(self.layout.cores)

    @property
    def program(self) -> str:
        """Return what stands for the program in a step's command: bare it may be another one than in the image."""
        return PROGRAM

    def own(self, name: str) -> str:
        """Return the path of a file of ours below ``checks/src``, quoted."""
        return shlex.quote(f"{self.prefix}/src/{name}")

    def fill_in(self, template: str, *names: str, **values: object) -> None:
        """Fill in a template below ``checks/src`` and write it into the stage directory, under each of the names."""
        text = Path(self.prefix, "src", template).read_text().format(**values)
        for name in names:
            Path(self.stagedir, name).write_text(text)

    def skip_because(self, reason: str) -> None:
        """Skip the check, with the reason in ReFrame's listing and in the reports."""
        self.skip_reason = texts.sanitized(reason)
        self.skip(self.skip_reason)
