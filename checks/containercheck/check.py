"""The base class of the application checks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, SanityError
from reframe.core.logging import getlogger
from reframe.utility.sanity import make_performance_function

from containercheck import commands, outcome, references, results, runtimes, sites, slurm, software
from containercheck.facts import Answer, Figure, Step, UnreadableError


class ContainerCheck(rfm.RegressionTest):
    """An application, bare or in a container, on a number of nodes.

    A container variant runs the bare program too, in the same job, in alternating rounds, and fails when the
    container is slower than the tolerance allows, gives other answers, hangs, or does not run as the variant says.
    Subclasses state facts: the variables below, and input files in a hook before ``run``.
    """

    #: How the application runs: on the host, in a container with the host's MPI, or in a self-contained container.
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    #: Nodes of the job.
    num_nodes = parameter(sites.node_counts(), loggable=True)

    #: Name of the definition file in ``images/``.
    recipe = variable(str)
    #: C source below ``checks/src`` for a program of the project's own; the image has it on its PATH.
    source = variable(str, type(None), value=None)
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
    #: Where it says how many ranks it ran with; None for a program that is not started by MPI's launcher.
    rank_count = variable(Answer, type(None), value=None, loggable=False)
    #: A program that starts the command in place of MPI's launcher, with its options.
    started_by = variable(str, type(None), value=None)
    #: A program whose libraries tell which MPI the host has, and which the image; by default the application.
    mpi_program = variable(str, type(None), value=None)
    #: Directory of the node into which the image is copied for the job; by default it runs from where it lies.
    image_directory = variable(str, value="")
    #: Whether the program uses GPUs where the partition has any, in its ``devices``.
    gpu = variable(typ.Bool, value=False)
    #: More options for the container runtime.
    container_options = variable(typ.List[str], value=[])
    #: Files that every run writes and that figures or answers are read from.
    output_files = variable(typ.List[str], value=[])
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

    #: Paired rounds of baseline and subject; a bare check, which compares nothing, runs once.
    rounds = variable(int, value=4)
    #: Seconds that one run may take before it counts as hanging.
    run_limit = variable(float, int, value=600.0)
    #: Accepted overhead in percent, for figures that name none of their own.
    tolerance = variable(float, int, value=5.0, loggable=True)

    #: The seed's own input, where the site has it, in place of the embedded one; the check says what it is. A path, or
    #: an address that ends with ``#sha256=<digest>`` (see job/downloads.py); also in the site's extras, ``inputs``.
    published = variable(str, value="")
    #: Whether the cases of the full axes run too: ``-S full=yes``, or ``--mode=full`` with config/common.py.
    full = variable(typ.Bool, value=False)
    #: Set in a hook after ``init``: this case belongs to the full axes.
    full_only = variable(typ.Bool, value=False)

    #: Why the check was not run; for the reports, which ReFrame's own does not tell.
    skip_reason = variable(str, value="", loggable=True)
    #: A row for each figure: see :func:`results.rows`. For the reports.
    results = variable(typ.List[dict], value=[], loggable=True)
    #: What ran: runtime, its version, SHA-256 of the image, MPI libraries of each side, input. For the reports.
    provenance = variable(dict, value={}, loggable=True)
    #: Seconds that the application itself ran, all rounds together.
    application_seconds = variable(float, int, value=0.0, loggable=True)

    valid_prog_environs = ["*"]
    build_system = "CustomBuild"
    sourcesdir = None

    @property
    def contained(self) -> bool:
        """Whether the subject runs in a container."""
        return self.variant != "bare"

    @property
    def uses_mpi(self) -> bool:
        """Whether the application loads an MPI library, so that it can be seen which."""
        return self.rank_count is not None or self.mpi_program is not None

    def skip_because(self, reason: str) -> None:
        """Skip the check, with the reason in ReFrame's listing and in the reports."""
        self.skip_reason = reason
        self.skip(reason)

    @run_after("init")
    def choose_partitions(self):
        """Generate the check for no partition that has too few nodes."""
        self.valid_systems = sites.partitions_with(self.num_nodes)

    @run_after("init")
    def find_references(self):
        """Take the references of ``checks/references/<class>.yaml``, if there are any."""
        self.reference = references.file_of(self.prefix, type(self).__name__)

    @run_after("init", always_last=True)
    def tag_full_axes(self):
        """Let ``-t full`` select the cases of the full axes."""
        if self.full_only:
            self.tags |= {"full"}

    @run_after("setup")
    def prepare(self):
        """Find the software, or skip with the reason why there is none."""
        try:
            if self.full_only and not self.full:
                raise software.Unavailable("belongs to the full axes, which run with -S full=yes")
            self._choose_ranks()
            self._find_software()
            # ReFrame cancels a job that waits longer, without an error of its own: slurm.end_of_job says so.
            self.max_pending_time = self.max_pending_time or self.current_partition.extras.get("max_pending_time")
        except software.Unavailable as error:
            self.skip_because(str(error))

    def _choose_ranks(self):
        cores = sites.cores_per_node(self.current_partition)
        if cores is None and (self.ranks_per_node is None or self.threads == 0):
            raise software.Unavailable(
                f"cores per node unknown: write 'processor' of {self.current_partition.fullname} into the site file"
            )
        if self.threads == 0:
            self.threads = max(1, cores // (self.ranks_per_node or 1))
        self.num_tasks_per_node = self.ranks_per_node or max(1, cores // self.threads)
        self.num_cpus_per_task = self.threads
        needed = self.num_tasks_per_node * self.threads
        if cores is not None and needed > cores:
            raise software.Unavailable(f"needs {needed} cores per node: {self.current_partition.fullname} has {cores}")
        self.num_tasks = self.num_nodes * self.num_tasks_per_node
        if self.gpu:
            devices = self.current_partition.select_devices("gpu")
            self.num_gpus_per_node = sum(device.num_devices for device in devices) or None
        if self.num_tasks < self.min_ranks:
            raise software.Unavailable(f"needs {self.min_ranks} ranks: {self.num_nodes} node(s) have {self.num_tasks}")

    def _find_software(self):
        modules = [*self.current_environ.modules, *self.modules]
        # The job's own Python where the job runs here; elsewhere what the nodes have.
        self.python = sys.executable if self.current_partition.scheduler.registered_name == "local" else "python3"
        if self.requirements:
            install, activate = software.python_environment(self.requirements, self.current_partition, sys.executable)
            self.bare_command, builds = self.executable, [install]
            self.prerun_cmds += [activate]
        else:
            self.bare_command, builds = software.bare_program(self.executable, self.source, modules)
        if self.artifacts:
            builds.append(software.fetch_jars(self.artifacts, self.current_partition, sys.executable))
        published = self.published or self.current_partition.extras.get("inputs", {}).get(type(self).__name__)
        if published:
            self.provenance = {"input": published}
            self.published, fetch = software.published_input(published, self.current_partition, sys.executable)
            builds += fetch
        if self.mpi_family:
            software.require_mpi(self.mpi_family, self.current_partition, modules)
        self.image = None
        if self.contained:
            self.runtime = software.require_runtime(self.current_partition)
            self.image, builders = software.image(self.current_partition, self.recipe, self.runtime, sys.executable)
            builds += builders
        # ReFrame says of a failed build only that it failed: check_build says why.
        self.build_system.commands = [f"({' && '.join(builds or ['true'])}) || echo $? >{software.BUILD_STATUS}"]

    @run_after("compile")
    def check_build(self):
        """Fail with what the build said, or skip where the software does not exist for this machine."""
        try:
            software.require_built(Path(self.stagedir), self.build_stderr.evaluate())
        except software.Unavailable as error:
            self.skip_because(str(error))

    @run_before("run", always_last=True)
    def pair_commands(self):
        """Write baseline and subject into the job, and let the runner alternate them."""
        texts = commands.scripts(self)
        self.prerun_cmds += [f"cat >{name} <<'END'\n{text}\nEND" for name, text in texts.items()]
        self.job.launcher = getlauncher("local")()
        self.executable_opts = commands.runner(self, list(texts))
        self.executable = self.python

    @run_before("sanity")
    def outlast_scheduler(self):
        """Wait for a job that ReFrame lost sight of while Slurm's controller was restarted."""
        record = Path(self.stagedir, "rounds.json")
        started = slurm.is_slurm(self.job) and not self.is_dry_run()
        self._job_state = slurm.outlast(self.job, lambda: outcome.is_complete(record)) if started else None

    @sanity_function
    def validate(self):
        """Fail when a run hung or failed, answers are wrong or differ, or the ranks or the MPI are not as intended."""
        stagedir = Path(self.stagedir)
        try:
            record = outcome.read_record(stagedir)
        except UnreadableError as error:
            end = slurm.end_of_job(self._job_state, stagedir / self.stderr.evaluate(), self.max_pending_time)
            raise SanityError(f"{error}: {end}") from None
        self._outcome = outcome.evaluate(record, stagedir, self.figures, self.answers, self.rank_count, self.num_tasks)
        self.application_seconds = self._outcome.seconds
        self._note_provenance(record)
        problems = self._outcome.problems
        if self.contained and self.uses_mpi and not problems:
            plan = stagedir / "host-mpi.json"
            host_mpi = json.loads(plan.read_text()) if self.variant == "integrated" else None
            problem = outcome.mpi_problem(record, host_mpi)
            problems = [problem] if problem else []
        if problems:
            more = f"\n({len(problems) - 4} more)" if len(problems) > 4 else ""
            raise SanityError("\n".join(problems[:4]) + more)
        return True

    def _note_provenance(self, record):
        mpi = {run["side"]: sorted(run["mpi"]) for run in record["runs"] if run["mpi"]}
        self.provenance = {**self.provenance, "mpi": mpi, "host": record["host"]}
        if self.contained:
            command = runtimes.command_of(self.runtime)
            self.provenance.update({"runtime": command, "runtime_version": runtimes.version(command)})
            image = Path(self.stagedir, self.image).resolve()
            self.provenance["image"] = str(image)
            known = image.with_suffix(".json")
            if known.exists():
                self.provenance["image_sha256"] = json.loads(known.read_text())["sha256"]

    @run_before("performance")
    def report_figures(self):
        """Hand the figures to ReFrame: the subject's value, and for containers the bare one and the overhead."""
        self._comparisons = []
        if self.is_dry_run():
            return
        absolute, expected = references.split(self)
        if expected:
            self.reference = {self.current_partition.fullname: absolute}
        if self.contained:
            self._comparisons = outcome.compare(self.figures, self._outcome, self.tolerance, expected)
        self.results = results.rows(self.figures, self._outcome, self._comparisons)
        for row in self.results:
            self._report(row["figure"], row["container"] if self.contained else row["bare"], row["unit"])
            if self.contained:
                self._report(f"{row['figure']}_bare", row["bare"], row["unit"])
                self._report(f"{row['figure']}_overhead", row["overhead"], row["overhead_unit"])
                self._report(f"{row['figure']}_interval", row["interval"], row["overhead_unit"])

    def _report(self, name, value, unit):
        self.perf_variables[name] = make_performance_function(lambda: float(f"{value:.6g}"), unit)

    @run_after("performance")
    def judge(self):
        """Fail when an overhead is above its tolerance or not the expected one; warn when that is not clear."""
        failures = outcome.failures(self._comparisons)
        if failures and self.strict_check:
            raise PerformanceError("\n".join(failures))
        for line in outcome.doubts(self._comparisons):
            getlogger().warning(f"{self.display_name}: {line}")


class OneNodeCheck(ContainerCheck):
    """An application without MPI: one process on one node, with nothing of the host to bring into its image."""

    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    ranks_per_node = 1
