"""Define the base class of the application checks: the hooks that ReFrame calls, phase by phase."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, sanity_function
from reframe.core.exceptions import PerformanceError, ReframeError, SanityError
from reframe.core.logging import getlogger
from reframe.utility.sanity import make_performance_function

from containercheck import software
from containercheck.application import allowance, axes, declare, references
from containercheck.application.allowance import Allowance
from containercheck.check.build import BuiltCheck, Finished, Prepared, has_own_source
from containercheck.check.variants import VariantSides
from containercheck.job import contract, texts
from containercheck.job.explain import observations
from containercheck.job.explain.observations import Use
from containercheck.results import earlier_sessions, sides_seen
from containercheck.results.row import SCHEMA, VERSION, Record
from containercheck.sides import commands, launchers, rounds
from containercheck.sides.sides import Needs, Side
from containercheck.site import jobs, sites
from containercheck.site.extras import Software
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from containercheck.software import host


class NotMeasured(SanityError):
    """Report a job that ended before any result; reports distinguish it from a bad result by this name."""


class OutOfService(ReframeError):
    """Report too few nodes of the partition that accept jobs; ReFrame's message begins with this name."""


class ContainerCheck(BuiltCheck, VariantSides):
    """Run an application, bare or in a container, on a number of nodes.

    A container variant also runs the bare program, in the same job, in alternating rounds. It fails if the container
    is slower than the tolerance allows, gives other answers, hangs, or does not run as the variant says.
    Subclasses state the facts of ``ApplicationFacts``, and write input files in a hook before ``run``.

    Each phase uses the attributes of the phases before it, and sets these ones, in addition to ReFrame's:

    - ``init`` takes the facts of the class and the options of the session. It sets ``valid_systems``, ``full_only``,
      ``tags`` and, on the full axes, ``run_limit``. Hooks of the application may change metrics and axes.
    - ``setup`` takes the partition. It sets ``site`` and ``layout`` (those of a side), ``runtime``, ``expected``, the
      facts that the site overrides, and ``prepared``. Hooks of the application run after it, and may skip.
    - ``compile`` takes ``prepared.provision``: it builds the software that is not in a cache, or skips.
    - ``run`` takes metrics, answers, steps and input; hooks of the application may set them until then. It writes the
      job: its script, ``facts.json`` and ``commands.json``. It sets ``compared`` and ``job_sides``.
    - ``sanity`` takes the record of the job. It sets ``finished``, ``results``, ``causes``, ``measured``, ``notes``,
      ``provenance``, ``reproducer`` and the seconds, and fails for anything but performance.
    - ``performance`` takes ``finished``. It hands the metrics to ReFrame, and fails when a container is too slow.
    """

    #: Sides of the job, in the order of their declaration; and the results of the job.
    job_sides: tuple[Side, ...]
    #: Whether both sides run at the same time (sides/rounds.py).
    is_duet = False
    finished: Finished
    # Attributes of ReFrame, for type checkers, which do not see their types.
    executable: str
    keep_files: list[str]
    prerun_cmds: list[str]
    time_limit: float | None
    max_pending_time: Any
    extra_resources: dict[str, Any]
    reference: Any

    # init

    @run_after("init")
    def choose_partitions(self) -> None:
        """Generate the check only for partitions with enough nodes."""
        jobs.one_at_a_time()
        self.valid_systems = sites.partitions_with(self.num_nodes)
        if self.platform != contract.FIRST_PLATFORM:
            # A session that compares runtimes or images names them itself.
            named = () if self.runtimes or self.compared_images else sites.partitions_with_platform(self.platform)
            self.valid_systems = [name for name in self.valid_systems if name in named]

    @run_after("init", always_last=True)
    def place_in_axes(self) -> None:
        """Tag the case for ``-t``, and set the limit of the full axes; bare has no cases of the image's axes."""
        plain = {**axes.PLAIN, **self.plain}
        others = [name for name, value in plain.items() if getattr(self, name, value) != value]
        self.full_only = self.full_only or bool(others)
        of_image = set(others) & set(axes.OF_IMAGE)
        is_crossed = contract.PLATFORM in of_image and len(of_image) > 1
        if is_crossed or (of_image and not self.contained):
            self.valid_systems = []
        # Includes metrics of a peak that only some sites know, and those of the time in MPI if a session asks for them.
        more = [*declare.of_peak(self.metrics, 1.0), *declare.mpi_times_metrics(self.program_names), declare.ENERGY]
        references.metric_names(type(self).__name__, [*self.metrics, *more])
        measured = {part for metric in self.metrics for part in metric.measures}
        tags = {
            "full": self.full_only,
            "mpi": self.rank_count is not None,
            "gpu": self.gpu,
            "licensed": self.site_provides_input,
            "io": "files" in measured,
            "memory": "memory" in measured,
            "network": "network" in measured,
        }
        self.tags |= {tag for tag, applies in tags.items() if applies}
        if self.full_only:
            self.run_limit = self.full_run_limit or self.run_limit

    # setup

    @run_after("setup")
    def prepare(self) -> None:
        """Lay out the ranks and find the software, or skip with the reason."""
        jobs.leave_outer_job()
        self.site = self.site_of_build()
        self.reference = references.file_of(self.site, self.prefix, type(self).__name__)
        values = self.published_values
        is_published = values and all(getattr(self, name) == value for name, value in values.items())
        self.input = "published" if is_published or self.takes_published else self.input
        site_software = self.site.software_of(type(self).__name__)
        program_in_image = site_software.image_executable or self.executable
        site_software = self._take_over(site_software)
        try:
            self._take_patterns(site_software)
            self._add_metrics()
            self.prepared = self._found(site_software, program_in_image)
        except (software.Unavailable, LayoutError) as error:
            self.skip_because(str(error))
        # The build of an image needs the runtime's modules and variables too.
        self._load(self.prepared.runtime_needs)
        self.build_with(self.prepared.provision)
        # ReFrame cancels a job that waits longer, without an error message; jobs.end_of_job reports it.
        self.max_pending_time = self.max_pending_time or self.site.max_pending_time

    def _take_over(self, site_software: Software) -> Software:
        """Replace the check's software with that of the site, and return that; a ready image comes first."""
        if has_own_source(site_software):
            self.spack, self.easybuild = site_software.spack, site_software.easybuild
        self.executable = site_software.executable or self.executable
        if site_software.executable or self.spack or self.easybuild:
            self.source, self.requirements = None, None
        self.tolerance = self.tolerance if site_software.tolerance is None else site_software.tolerance
        return replace(site_software, image=self.ready_image) if self.ready_image else site_software

    def _take_patterns(self, site_software: Software) -> None:
        """Take options and output patterns of a program that only the site has, such as a licensed one."""
        check = type(self).__name__
        if not self.site_provides_input:
            host.refuse_patterns(check, self.site)
            return
        ready = bool(self.compared_images or self.ready_image) or self.recipe in (self.site.images or {})
        host.require_licensed(check, self.site, self.published, self.contained and not ready)
        self.executable_opts = [*site_software.options]
        self.metrics, self.answers, self.rank_count = host.filled_in(
            check, self.site, self.metrics, self.answers, self.rank_count
        )

    def _add_metrics(self) -> None:
        """Add the time in MPI if a session asks for it, values in percent of a known peak, and the energy of a node."""
        if self.mpi_times:
            if self.rank_count is None:
                raise ReframeError(f"mpi_times: {type(self).__name__} has no ranks of MPI")
            if self.static_mpi:
                raise ReframeError(
                    f"mpi_times: no library can be preloaded before the static MPI of {type(self).__name__}"
                )
            metrics = declare.mpi_times_metrics(self.program_names)
            self.metrics = [*self.metrics, *metrics]
            self.output_files = [*self.output_files, *dict.fromkeys(metric.file for metric in metrics)]
            # They have the times of each rank and function.
            self.keep_files = [*dict.fromkeys([*self.keep_files, contract.FIRST_ROUND])]
        if self.site.peak_per_core and self.site.cores:
            peak = self.site.peak_per_core * self.site.cores * self.num_nodes
            self.metrics = [*self.metrics, *declare.of_peak(self.metrics, peak)]
        if self.site.energy and self.num_nodes == 1:
            self.metrics = [*self.metrics, declare.ENERGY]
            self.output_files = [*self.output_files, contract.ENERGY]

    def _found(self, site_software: Software, program_in_image: str) -> Prepared:
        """Return the values of this phase, and set ReFrame's own variables of the job's size.

        :raises LayoutError: the check does not fit the partition, or its limits.
        :raises Unavailable: the partition lacks software, a runtime or an image.
        :raises OutOfService: too few nodes accept jobs.
        """
        partition = self.current_partition
        self.runtime = launchers.find_runtime(partition, self.way, self.platform) if self.contained else None
        self._lay_out()
        self._request()
        if not self.is_dry_run():
            self.layout.require_here(self.site)
        self.job.options = [*self.job.options, *jobs.options_of(self.job, self.site, self.layout)]
        # ReFrame writes the options of the command line last, and Slurm uses the last one.
        self.job.cli_options.extend(self._rerun())
        allowed = self._allowed()
        # A job on this machine may wait for its turn before it begins.
        turn = jobs.TURN if self.site.is_here else 0.0
        self.time_limit = self.time_limit or allowed.at_most + turn
        self._require_nodes()
        needs = launchers.runtime_needs(partition, self.runtime)
        provision = software.provide(self.wanted_software(site_software, needs), self.site)
        return Prepared(
            site_software,
            program=provision.program or self.executable,
            program_in_image=program_in_image + self.program_suffix,
            allowance=allowed,
            runtime_needs=needs,
            provision=provision,
        )

    def _lay_out(self) -> None:
        """Place the ranks of a side on the nodes, on half of a node for a duet."""
        if self.side_count > 1:
            can_be = rounds.can_be_duet(
                self.site, self.metrics, nodes=self.num_nodes, sides=self.side_count, runtime=self.runtime
            )
            can_be = can_be and not (self.gpu and self.site.gpus)
            self.is_duet = rounds.is_duet(self.duet, self.gains_by_duet, self.metrics, can_be)
        if self.is_duet:
            self.site = rounds.half_of(self.site)
        self.layout = Layout.on(
            self.site,
            self.num_nodes,
            self.ranks_on_node(self.site),
            self.threads,
            self.min_ranks,
            self.known_work.max_cores if self.known_work else None,
        )

    @property
    def compared_metrics(self) -> list[declare.Metric]:
        """Metrics that are compared: in a duet those that suit it. Hooks of the application may still change them."""
        return rounds.duet_metrics(self.metrics) if self.is_duet else list(self.metrics)

    def ranks_on_node(self, site: Site) -> int | None:
        """Return the ranks on a node, ``ranks_per_node``; override it if they follow from the partition's cores."""
        return self.ranks_per_node

    def _request(self) -> None:
        """Set ReFrame's variables of the size of the job, and the name of the program of this size."""
        self.executable += self.program_suffix
        self.threads = self.num_cpus_per_task = self.layout.threads
        self.num_tasks, self.num_tasks_per_node = self.layout.ranks, self.layout.ranks_per_node
        self.num_gpus_per_node = (self.gpu and self.site.gpus) or None
        self.exclusive_access = self.site.exclusive
        if self.site.hardware_threads > 1:
            # Without them, Slurm counts cores instead.
            self.use_multithreading = False

    def _allowed(self) -> Allowance:
        """Return the job's time, and set its memory and the expected cost of the case."""
        work = self.known_work
        run = allowance.Run.of(work, self.amount if work else None, self.layout, self.run_limit)
        self.extra_resources = {**allowance.resources(self.site, run), **self.extra_resources}
        metrics, spreads = self.compared_metrics, self._spreads()
        needed = self.rounds or earlier_sessions.rounds_expected(metrics, self.tolerance, spreads)
        allowed = allowance.allow(
            self.site, self.num_nodes, run, self.side_count, self.seconds, self.node_hours, needed
        )
        self.expected = {
            "ranks": self.layout.ranks,
            "threads": self.layout.threads,
            **asdict(run),
            **asdict(allowed),
            "closing": earlier_sessions.closing(metrics, self.tolerance, spreads),
        }
        return allowed

    def _spreads(self) -> Mapping[str, earlier_sessions.KnownSpread]:
        """Return the known spreads from earlier sessions, by metric."""
        return earlier_sessions.known(self.known_spreads, self.display_name, self.current_partition.fullname)

    def _require_nodes(self) -> None:
        """Fail if the job would wait for nodes that are down, so that other partitions go on."""
        problem = "" if self.is_dry_run() else jobs.out_of_service(self.job, self.num_nodes)
        if problem:
            raise OutOfService(texts.sanitized(f"{self.current_partition.fullname} {problem}"))

    def _rerun(self) -> list[str]:
        """Return the option that keeps a rerun off the nodes of its first run, or on them; usually none."""
        place = self.current_partition.fullname
        option, nodes = earlier_sessions.rerun_nodes(self.rerun_nodes, self.display_name, place)
        return jobs.on_nodes(self.job, self.num_nodes, option, nodes) if nodes else []

    def _load(self, needs: Needs) -> None:
        """Load modules in the build step and in the job, each once, and set variables that are not set."""
        self.modules += [module for module in needs.modules if module not in self.modules]
        self.env_vars = {**needs.variables, **self.env_vars}

    # run

    @run_before("run", always_last=True)
    def write_job(self) -> None:
        """Write the script of each side into the job, and let the runner alternate them."""
        prepared, self.job_sides = self.prepared, tuple(self.sides())
        reach_nodes = launchers.reach_nodes(self.job, self.site, self.layout)
        needs = Needs(
            (*reach_nodes, *prepared.provision.activate),
            modules=tuple(prepared.software.modules),
            files=tuple(self.own_files),
        )
        job = commands.job_commands(self.job_sides, needs, self.input_commands, self.site, self.layout, self.stagedir)
        self.compared = earlier_sessions.compared_in(
            self.job_sides, job.runs, self.layout, self._work_facts(), self.stagedir
        )
        self.prerun_cmds = [*jobs.first_commands(self.job), *job.first, *self.prerun_cmds, *job.last]
        self._load(job.needs)
        self.env_vars = {"OMP_NUM_THREADS": str(self.layout.threads), **self.env_vars}
        self.keep_files = [*self.keep_files, contract.REPRODUCER]
        self.write_private({contract.FACTS: json.dumps(self._job_facts()), **job.private})
        self.write_files(job.files)
        self.job.launcher = getlauncher("local")()
        self.executable, self.executable_opts = self._runner(job.prepares), []

    def _work_facts(self) -> dict[str, object]:
        """Return the work of the runs, once the commands for the input are known: only equal work is compared."""
        work = {name: self.expected[name] for name in ("amount", "unit")}
        if self.is_duet:
            work["order of the sides"] = "at the same time"
        return {**work, "input": self.published_path, "making of the input": "; ".join(self.input_commands)}

    def _job_facts(self) -> dict[str, Any]:
        """Return the facts by which the job reads and judges runs, for ``facts.json``."""
        metrics = self.compared_metrics
        expected, judged = self._expectations()
        cores = self.layout.ranks_per_node * self.layout.threads
        earlier = earlier_sessions.rounds_of(
            self.earlier, self.unique_name, self.current_partition.fullname, self.compared
        )
        return {
            "metrics": [{**asdict(metric), **judged[metric.name]} for metric in metrics],
            "priors": earlier_sessions.metric_priors(metrics, self._spreads()),
            "duet": {"cores": cores, "stagedir": self.stagedir} if self.is_duet else None,
            "answers": [asdict(answer) for answer in self.answers],
            "rank_count": asdict(self.rank_count) if self.rank_count else None,
            "ranks": self.layout.ranks,
            "cores": cores,
            "emulated": self.site.emulated,
            "identity": [asdict(identity) for identity in self.identity],
            "with_reference": [*expected],
            "sides": [side.facts(references.margins(self.metrics, self.tolerance)) for side in self.job_sides],
            "remedies": self.remedies,
            # A job on this machine has no time limit, and may wait for others before it begins.
            **({"deadline": allowance.PLANNED * self.time_limit} if self.time_limit and not self.site.is_here else {}),
            **earlier.facts,
        }

    def _expectations(self) -> tuple[Mapping[str, references.Expected], Mapping[str, Mapping[str, Any]]]:
        """Return the expected overheads and the accepted ranges, by metric; ReFrame gets the absolute references."""
        check, is_incomparable = type(self).__name__, self.is_duet or self.site.emulated
        known = references.metric_names(check, self.metrics)
        absolute, expected = references.split(references.case_references(self), self.metrics, known)
        if expected or is_incomparable:
            # Absolute references are for a whole node, of real processors.
            self.reference = {self.current_partition.fullname: {} if is_incomparable else absolute}
        tolerances = self.site.tolerances_of(check, known)
        return expected, references.accepted(self.metrics, expected, tolerances, self.tolerance)

    def _runner(self, makes_input: bool) -> str:
        """Return the command that runs all sides in rounds.

        :param makes_input: whether the job makes the input before the first round.
        """
        has_ranks = any(side.program.mpi for side in self.job_sides)
        # See job/this_node.py: containers that a daemon starts have their own share of the processors.
        started_here = self.site.is_here and all(
            side.container is None or side.container.runtime.starts_containers for side in self.job_sides
        )
        return rounds.command(
            self.site,
            # A single side is not compared, and runs once.
            amount=self.rounds if len(self.job_sides) > 1 else 1,
            seconds=self.prepared.allowance.rounds or self.seconds,
            limit=self.run_limit,
            local_ranks=self.layout.ranks_per_node if has_ranks else 0,
            collect=tuple(self.output_files),
            prepare=allowance.prepare_limit(self.expected["before"]) if makes_input else 0.0,
            keep_awake=self.keep_awake and started_here,
            quiet=self.quiet,
        )

    # sanity

    @run_before("sanity")
    def outlast_scheduler(self) -> None:
        """Wait for a job that ReFrame lost while Slurm's controller was restarted, and for the job's record."""
        stagedir = Path(self.stagedir)
        state = jobs.outlast(self.job, lambda: self.is_dry_run() or Record.read(stagedir).complete)
        self.finished = Finished(state, Record.read(stagedir))

    @sanity_function
    def validate(self) -> bool:
        """Fail when a run hung or failed, answers are wrong or differ, or the ranks or the MPI are not as intended.

        :raises NotMeasured: the job ended before its rounds did.
        :raises SanityError: a run has a problem, or the container could not be prepared.
        """
        self._skip_where_unsupported()
        record, verdict = self.finished.record, self.finished.record.verdict
        self.causes = list(verdict.get("causes", ()))
        explained = list(verdict.get("explained", ()))
        if not record.runs:
            reason = "\n".join([texts.sanitized(f"no rounds were run: {self._end_of_job()}"), *explained])
            # A container that cannot be prepared is broken.
            is_broken = self.contained and Path(self.stagedir, contract.UNPREPARED).exists()
            raise SanityError(reason) if is_broken else NotMeasured(reason)
        self._take_results(record)
        early = record.early_end(jobs.met_limit(self.finished.state))
        duet = [rounds.duet_note(self.metrics)] if self.is_duet else []
        self.notes = [*duet, *early, *verdict.get("notes", ())]
        problems = list(verdict.get("problems", ()))
        if not verdict or not (record.complete or early):
            # First, because the end of the job may be the reason why its last run failed.
            runs = f"(completed runs: {len(record.runs)})"
            end = f"the job ended before all rounds were done {runs}: {self._end_of_job()}"
            raise NotMeasured("\n".join([texts.first([end, *problems], 4), *explained]))
        if problems:
            lost = jobs.lost_node(self.job)
            problems = [f"the job lost a node: {lost}", *problems] if lost else problems
            raise SanityError("\n".join([texts.first(problems, 4), *explained]))
        return True

    def _skip_where_unsupported(self) -> None:
        """Skip the check if the job states why it cannot run on its node."""
        reason = Path(self.stagedir, contract.UNSUPPORTED_WHY)
        if reason.exists():
            self.skip_because(texts.tail(reason).removeprefix("error: "))

    def _end_of_job(self) -> str:
        """Return why the job ended early."""
        stderr = Path(self.stagedir, self.stderr.evaluate())
        return jobs.end_of_job(self.job, self.finished.state, stderr, self.max_pending_time)

    def _take_results(self, record: Record) -> None:
        """Take the values that the report keeps from the record."""
        stagedir, verdict = Path(self.stagedir), record.verdict
        reproducer = stagedir / contract.REPRODUCER
        self.reproducer = str(reproducer) if reproducer.exists() else ""
        self.application_seconds = verdict.get("seconds", 0.0)
        self.job_seconds = record.took
        # If one of several sides was lost, the others have rows too.
        self.results = [{VERSION: SCHEMA, **row} for row in verdict.get("rows", ())]
        self.measured = verdict.get("measured", [])
        self.where_time_went = verdict.get("where_time_went", "")
        left = [side for side in self.job_sides if side.name not in verdict.get("lost", ())]
        observed = {side.label: observations.read(stagedir, side.name) for side in left}
        kept = {label: sides_seen.kept(observation) for label, observation in observed.items() if observation}
        uses = {side.label: sides_seen.used(Use.of_side(record.runs, side.name)) for side in left}
        provenance = {**self.prepared.provision.provenance, **verdict.get("provenance", {})}
        provenance.update({sides_seen.SEES: kept} if kept else {})
        provenance.update({sides_seen.USES: uses} if any(uses.values()) else {})
        self.provenance = texts.cleaned(provenance)

    # performance

    @run_before("performance")
    def report_metrics(self) -> None:
        """Hand the metrics to ReFrame: the subject's value, and for containers the bare one and the overhead."""
        if self.is_dry_run():
            return
        for name, value, unit in self.finished.record.verdict["performance"]:
            self.perf_variables[name] = make_performance_function(lambda value=value: float(f"{value:.6g}"), unit)

    @run_after("performance")
    def judge(self) -> None:
        """Fail when an overhead is above its tolerance or not the expected one; warn when that is not clear."""
        if self.is_dry_run():
            return
        verdict = self.finished.record.verdict
        if verdict["failures"] and self.strict_check:
            lines = [*verdict["failures"], self.where_time_went, *verdict["explained"]]
            raise PerformanceError("\n".join(filter(None, lines)))
        # ReFrame keeps the output directory, and removes the stage directory.
        self.reproducer = self.reproducer and str(Path(self.outputdir, contract.REPRODUCER))
        for line in [*self.notes, *verdict["doubts"]]:
            getlogger().warning(f"{self.display_name}: {line}")


class SingleNodeCheck(ContainerCheck):
    """Run an application without MPI: one process on one node, with nothing of the host to bring into its image."""

    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    ranks_per_node = 1
