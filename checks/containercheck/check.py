"""The base class of the application checks: hooks that pass values from one phase to the next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, sanity_function
from reframe.core.exceptions import PerformanceError, ReframeError, SanityError
from reframe.core.logging import getlogger
from reframe.utility.sanity import make_performance_function

from containercheck import software
from containercheck.application import allowance, axes, facts, mpi_times, references
from containercheck.application.allowance import Allowance
from containercheck.explain import between
from containercheck.node import contract, texts
from containercheck.node.explain import observations
from containercheck.node.explain.observations import Use
from containercheck.results import earlier_rounds
from containercheck.results.row import Row
from containercheck.sides import commands, duets, rounds_command, runtimes
from containercheck.sides.sides import Needs, Side
from containercheck.sides.variants import VariantSides
from containercheck.site import schedulers, sites, waiting
from containercheck.site.extras import Software
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from containercheck.software import licensed
from containercheck.software.built_check import BuiltCheck
from containercheck.verdict import known_spreads
from containercheck.verdict.record import Record


class NotMeasured(SanityError):
    """The job ended before there was anything to judge; reports distinguish it from a bad result by this name."""


#: Why bare could not be read, by partition and case without its variant: then no container is compared with it.
_UNREADABLE: dict[tuple[str, str], str] = {}


class OutOfService(ReframeError):
    """Too few nodes of the partition accept jobs; ReFrame's message begins with this name."""


@dataclass(frozen=True)
class PreparedCase:
    """The values that one phase of a check passes to the next ones; None before the phase that sets them.

    After ``setup``:

    :ivar site_software: the site's own software for this check.
    :ivar image_executable: the program in the image.
    :ivar rounds: whether the sides take turns or run at once; ``site`` and ``layout`` of the check are those of a side.
    :ivar spreads: known spreads from earlier sessions, by figure.
    :ivar allowance: time and node-hours of the job.
    :ivar watch: watch over the job until its end.
    :ivar runtime_needs: modules and variables of the container runtime; ``runtime`` of the check is the runtime.
    :ivar provision: software, image and published input, and the commands that make them available.

    Before ``run``, once all hooks of the application ran:

    :ivar sides: the sides that are run and compared.
    :ivar makes_input: whether the job makes the input before the first round.

    At ``sanity``, in a dry run only the state:

    :ivar job_state: the scheduler's state of the job at its end.
    :ivar record: what the job left.
    """

    site_software: Software | None = None
    image_executable: str | None = None
    rounds: duets.Choice | None = None
    spreads: dict[str, known_spreads.KnownSpread] | None = None
    allowance: Allowance | None = None
    watch: waiting.Watch | None = None
    runtime_needs: Needs | None = None
    provision: software.Provision | None = None
    sides: Sequence[Side] | None = None
    makes_input: bool | None = None
    job_state: str | None = None
    record: Record | None = None


class ContainerCheck(BuiltCheck, VariantSides):
    """An application, bare or in a container, on a number of nodes.

    A container variant runs the bare program too, in the same job, in alternating rounds, and fails when the
    container is slower than the tolerance allows, gives other answers, hangs, or does not run as the variant says.
    Subclasses set the variables of ``ApplicationFacts``, and write input files in a hook before ``run``.

    Attributes that are set after each phase, beside ReFrame's own:

    - ``init``: ``valid_systems``, ``full_only``, ``tags``.
    - ``setup``: ``site``, ``layout``, ``runtime`` and ``expected``, for the application's hooks and properties; the
      variables of its software, as overridden by the site; ``prepared`` up to ``provision``.
    - before ``run``: the job's script, ``compared``; ``prepared`` up to ``makes_input``.
    - ``sanity``: ``results``, ``causes``, ``measured``, ``notes``, ``provenance``, ``reproducer`` and the seconds;
      ``prepared.record``.
    """

    #: Values from the phases so far.
    prepared = PreparedCase()

    def set_prepared(self, **facts: Any) -> None:
        """Set values for the next phases; names as in :class:`PreparedCase`."""
        self.prepared = replace(self.prepared, **facts)

    @run_after("init")
    def choose_partitions(self):
        """Generate the check only for partitions with enough nodes."""
        schedulers.one_at_a_time()
        self.valid_systems = sites.partitions_with(self.num_nodes)

    @run_after("init", always_last=True)
    def place_in_axes(self):
        """Tag the cases of the full axes, which ``-t full`` selects; bare has no cases of the image's axes."""
        plain = {**axes.PLAIN, **self.plain}
        others = [name for name, value in plain.items() if getattr(self, name, value) != value]
        self.full_only = self.full_only or bool(others)
        if not self.contained and set(others) & set(axes.OF_IMAGE):
            self.valid_systems = []
        # With those that it has only where the site knows its peak, or somebody asks for them.
        more = [*facts.of_peak(self.figures, 1.0), *mpi_times.figures(self.program_names)]
        references.figure_names(type(self).__name__, [*self.figures, *more])
        if self.full_only:
            self.tags |= {"full"}
            self.run_limit = self.full_run_limit or self.run_limit

    @run_after("setup")
    def prepare(self):
        """Lay out the ranks and find the software, or skip with the reason why not."""
        schedulers.leave_outer_job()
        self.site = self.site_of_build()
        self.reference = references.file_of(self.site, self.prefix, type(self).__name__)
        self._take_over(self.site.software_of(type(self).__name__))
        try:
            self._take_what_only_the_site_has()
            self._add_mpi_times()
            self._add_peak()
            self.runtime = runtimes.find(self.current_partition) if self.contained else None
            self._lay_out()
            if not self.is_dry_run():
                self.layout.require_here(self.site)
            self.job.options = [*self.job.options, *schedulers.options_of(self.job, self.site, self.layout)]
            self._allow()
            self._require_nodes()
            self.set_prepared(runtime_needs=runtimes.needs(self.current_partition, self.runtime))
            # A job of its own finds out what is not known of a partition.
            self.set_prepared(provision=software.provide(self.wanted_software(), self.site))
        except (software.Unavailable, LayoutError) as error:
            self.skip_because(str(error))
        if self.contained and self._twins in _UNREADABLE:
            reason = _UNREADABLE[self._twins]
            message = f"bare could not be read, and so no container is run beside it: {reason}"
            raise NotMeasured(texts.sanitized(message))
        # The build of an image needs the runtime's modules too.
        self.modules += [module for module in self.prepared.runtime_needs.modules if module not in self.modules]
        self.build_with(self.prepared.provision)
        # ReFrame cancels a job that waits longer, without an error of its own; waiting.end_of_job reports it.
        self.max_pending_time = self.max_pending_time or self.site.max_pending_time

    def _take_over(self, site_software):
        """Replace the check's software with that of the site, where the site has its own; a ready image comes first."""
        if self.ready_image:
            site_software = replace(site_software, image=self.ready_image)
        self.set_prepared(
            site_software=site_software, image_executable=site_software.image_executable or self.executable
        )
        if site_software.executable or site_software.modules or site_software.spack or site_software.easybuild:
            self.spack, self.easybuild = site_software.spack, site_software.easybuild
        self.executable = site_software.executable or self.executable
        if site_software.executable or self.spack or self.easybuild:
            self.source, self.requirements = None, None
        self.tolerance = self.tolerance if site_software.tolerance is None else site_software.tolerance

    def _take_what_only_the_site_has(self):
        """Take options and output patterns of a program that only the site has, such as a licensed one."""
        check = type(self).__name__
        if not self.sites_input:
            licensed.refuse_patterns(check, self.site)
            return
        ready = bool(self.compared_images or self.ready_image) or self.recipe in (self.site.images or {})
        licensed.require(check, self.site, self.published, self.contained and not ready)
        self.executable_opts = [*self.prepared.site_software.options]
        facts = (self.figures, self.answers, self.rank_count)
        self.figures, self.answers, self.rank_count = licensed.filled_in(check, self.site, *facts)

    def _add_mpi_times(self):
        """Add the figures of the time in MPI where they are asked for."""
        if not self.mpi_times:
            return
        if self.rank_count is None:
            raise ReframeError(f"mpi_times: {type(self).__name__} has no ranks of MPI")
        if self.static_mpi:
            raise ReframeError(f"mpi_times: no library can be preloaded before the static MPI of {type(self).__name__}")
        figures = mpi_times.figures(self.program_names)
        self.figures = [*self.figures, *figures]
        self.output_files = [*self.output_files, *dict.fromkeys(figure.file for figure in figures)]
        # The report draws the ranks of the first round.
        self.keep_files = [*dict.fromkeys([*self.keep_files, contract.FIRST_ROUND])]

    def _add_peak(self):
        """Add figures in percent of the nodes' peak where the site knows it."""
        if self.site.peak_per_core and self.site.cores:
            peak = self.site.peak_per_core * self.site.cores * self.num_nodes
            self.figures = [*self.figures, *facts.of_peak(self.figures, peak)]

    def _lay_out(self):
        max_cores = self.known_work and self.known_work.max_cores
        layout_facts = (self.threads, self.min_ranks, max_cores)
        place = (self.runtime, self.gpu and self.site.gpus > 0, self.unpacked)
        case = duets.Case(self.num_nodes, self.side_count, self.figures, *place)

        def lay_out(site):
            return Layout.on(site, self.num_nodes, self.ranks_on_node(site), *layout_facts, self.hardware_threads)

        # Both halves of a node would have to be told apart by hardware threads.
        duet = "no" if self.hardware_threads else self.duet
        self.set_prepared(rounds=duets.choose(duet, self.site, case, lay_out))
        self.site, self.layout = self.prepared.rounds.site, self.prepared.rounds.layout
        self.executable += self.program_suffix
        self.set_prepared(image_executable=self.prepared.image_executable + self.program_suffix)
        self.threads = self.num_cpus_per_task = self.layout.threads
        self.num_tasks, self.num_tasks_per_node = self.layout.ranks, self.layout.ranks_per_node
        self.num_gpus_per_node = (self.gpu and self.site.gpus) or None
        self.exclusive_access = self.site.exclusive
        if self.site.hardware_threads > 1:
            # Without them, Slurm counts cores instead.
            self.use_multithreading = self.hardware_threads

    def ranks_on_node(self, site: Site) -> int | None:
        """Return the ranks on a node, ``ranks_per_node``; override it where they follow from the partition's cores."""
        return self.ranks_per_node

    def _allow(self):
        """Set the job's time and memory, and the expected cost of the case."""
        run = allowance.Run.of(self.known_work, self.known_work and self.amount, self.layout, self.run_limit)
        self.extra_resources = {**allowance.resources(self.site, run), **self.extra_resources}
        self.set_prepared(
            spreads=known_spreads.known(self.known_spreads, self.display_name, self.current_partition.fullname)
        )
        figures = self.prepared.rounds.figures
        rounds = self.rounds or known_spreads.rounds_expected(figures, self.tolerance, self.prepared.spreads)
        facts = (self.num_nodes, run, self.side_count, self.seconds, self.node_hours, rounds)
        self.set_prepared(allowance=allowance.allow(self.site, *facts))
        self.set_prepared(watch=waiting.Watch(self.job))
        turn = waiting.TURN if self.site.is_here else 0.0
        self.time_limit = self.time_limit or self.prepared.allowance.at_most + turn
        closing = known_spreads.closing(figures, self.tolerance, self.prepared.spreads)
        self.expected = {
            "ranks": self.layout.ranks,
            "threads": self.layout.threads,
            **asdict(run),
            **asdict(self.prepared.allowance),
            "closing": closing,
        }

    def _require_nodes(self):
        """Fail where the job would wait for nodes that are down, so that other partitions go on."""
        problem = "" if self.is_dry_run() else schedulers.out_of_service(self.job, self.num_nodes)
        if problem:
            raise OutOfService(texts.sanitized(f"{self.current_partition.fullname} {problem}"))

    @run_before("run", always_last=True)
    def write_job(self):
        """Write the script of each side into the job, and let the runner alternate them."""
        # Hooks of the application may have changed its figures: of another input, or of a single rank.
        self.set_prepared(rounds=self.prepared.rounds.with_figures(self.figures))
        self.set_prepared(sides=self.sides())
        needs = Needs(
            self.prepared.provision.activate, modules=(*self.prepared.site_software.modules,), files=(*self.own_files,)
        )
        job = commands.job_commands(
            self.prepared.sides, needs, self.input_commands, self.site, self.layout, self.stagedir
        )
        self.set_prepared(makes_input=job.prepares)
        self.compared = earlier_rounds.compared_in(
            self.prepared.sides, job.runs, self.layout, self.work_facts, self.stagedir
        )
        self.prerun_cmds = [*schedulers.first_commands(self.job), *job.first, *self.prerun_cmds, *job.last]
        self.modules += [module for module in job.needs.modules if module not in self.modules]
        self.env_vars = {"OMP_NUM_THREADS": str(self.layout.threads), **job.needs.variables, **self.env_vars}
        self.keep_files = [*self.keep_files, contract.REPRODUCER]
        self.write_private({contract.FACTS: json.dumps(self._make_facts()), **job.private})
        self.write_files(job.files)
        self.job.launcher = getlauncher("local")()
        self.executable, self.executable_opts = self._runner(), []

    def _make_facts(self):
        check = type(self).__name__
        known = references.figure_names(check, self.figures)
        found = references.case_references(self)
        absolute, expected = references.split(found, self.figures, known, self.site.emulated)
        if expected or self.site.emulated or self.prepared.rounds.at_once:
            # Absolute references are for a whole node.
            self.reference = {self.current_partition.fullname: {} if self.prepared.rounds.at_once else absolute}
        site_tolerances = self.site.tolerances_of(check, known)
        accepted = references.accepted(self.figures, expected, site_tolerances, self.tolerance)
        return {
            "figures": [{**asdict(figure), **accepted[figure.name]} for figure in self.prepared.rounds.figures],
            "priors": known_spreads.figure_priors(self.prepared.rounds.figures, self.prepared.spreads),
            "duet": self.prepared.rounds.facts(self.stagedir),
            "answers": [asdict(answer) for answer in self.answers],
            "rank_count": asdict(self.rank_count) if self.rank_count else None,
            "ranks": self.layout.ranks,
            "cores": self.layout.ranks_per_node * self.layout.threads,
            "emulated": self.site.emulated,
            "identity": [asdict(identity) for identity in self.identity],
            "with_reference": [*expected],
            "sides": [side.facts(references.margins(self.figures, self.tolerance)) for side in self.prepared.sides],
            "remedies": self.remedies,
            # A job on this machine has no time limit of its own, and may wait for others before it begins.
            **({} if self.site.is_here else {"deadline": allowance.PLANNED * self.time_limit}),
            **earlier_rounds.rounds_of(
                self.earlier, self.unique_name, self.current_partition.fullname, self.compared
            ).facts,
        }

    def _runner(self):
        local_ranks = self.layout.ranks_per_node if any(side.program.mpi for side in self.prepared.sides) else 0
        # A single side is not compared, and runs once.
        round_count = self.rounds if len(self.prepared.sides) > 1 else 1
        # See node/job/awake.py: containers that a daemon starts have their own share of the processors.
        started_here = self.site.is_here and all(
            side.container is None or side.container.runtime.starts_containers for side in self.prepared.sides
        )
        files, awake = tuple(self.output_files), self.keep_awake and started_here
        seconds = self.prepared.allowance.rounds or self.seconds
        prepare = allowance.prepare_limit(self.expected["before"]) if self.prepared.makes_input else 0.0
        return rounds_command.RoundsOptions(
            round_count, seconds, self.run_limit, local_ranks, files, prepare, awake, self.quiet
        ).command(self.site)

    @run_before("sanity")
    def outlast_scheduler(self):
        """Wait for a job that ReFrame lost while Slurm's controller was restarted, and for the job's record."""
        self.set_prepared(
            job_state=self.prepared.watch.outlast(
                lambda: self.is_dry_run() or Record.read(Path(self.stagedir)).complete
            )
        )

    @sanity_function
    def validate(self):
        """Fail when a run hung or failed, answers are wrong or differ, or the ranks or the MPI are not as intended."""
        stagedir = Path(self.stagedir)
        self.reproducer = str(stagedir / contract.REPRODUCER) if (stagedir / contract.REPRODUCER).exists() else ""
        if (stagedir / contract.UNSUPPORTED_WHY).exists():
            self.skip_because(texts.tail(stagedir / contract.UNSUPPORTED_WHY).removeprefix("error: "))
        end = self.prepared.watch.end(self.prepared.job_state, stagedir / self.stderr.evaluate(), self.max_pending_time)
        record = Record.read(stagedir)
        self.set_prepared(record=record)
        verdict = record.verdict
        self.causes = list(verdict.get("causes", ()))
        if not record.runs:
            said = texts.sanitized(f"no rounds were run: {end}")
            # A container that cannot be prepared is broken.
            is_broken = self.contained and (stagedir / contract.UNPREPARED).exists()
            raise (SanityError if is_broken else NotMeasured)("\n".join([said, *verdict.get("explained", ())]))
        self._take_results(record, stagedir)
        early = record.early_end(waiting.met_limit(self.prepared.job_state))
        self.notes = [*filter(None, [self.prepared.rounds.note]), *early, *verdict.get("notes", ())]
        problems = list(verdict.get("problems", ()))
        broken = not verdict or (not record.complete and not early)
        if broken:
            # First, because the end of the job may be the reason why its last run failed.
            runs = f"(completed runs: {len(record.runs)})"
            problems.insert(0, f"the job ended before all rounds were done {runs}: {end}")
        elif problems and (lost := waiting.lost_node(self.job)):
            problems.insert(0, f"the job lost a node: {lost}")
        if problems:
            if not self.contained and verdict.get("unreadable"):
                _UNREADABLE[self._twins] = problems[0]
            said = "\n".join([texts.first(problems, 4), *verdict.get("explained", ())])
            raise (NotMeasured if broken else SanityError)(said)
        return True

    def _take_results(self, record, stagedir):
        """Take what the report keeps from the record."""
        verdict = record.verdict
        self.application_seconds, self.job_seconds = verdict.get("seconds", 0.0), record.took
        # Of sides that are left, where one of several was lost, there are rows too.
        self.results = [Row.from_json(row).to_json() for row in verdict.get("rows", ())]
        self.measured = verdict.get("measured", [])
        self.where_time_went = verdict.get("where_time_went", "")
        left = [side for side in self.prepared.sides if side.name not in verdict.get("lost", ())]
        seen = {side.label: observations.read(stagedir, side.name) for side in left}
        kept = {label: between.kept(observation) for label, observation in seen.items() if observation}
        uses = {side.label: between.used(Use.of_side(record.runs, side.name)) for side in left}
        self.provenance = texts.cleaned(
            {
                **self.prepared.provision.provenance,
                **verdict.get("provenance", {}),
                **({between.SEES: kept} if kept else {}),
                **({between.USES: uses} if any(uses.values()) else {}),
            }
        )

    @property
    def _twins(self) -> tuple[str, str]:
        """Key that a case shares with its bare case: the partition, and the name without the variant."""
        return self.current_partition.fullname, self.display_name.replace(f"%variant={self.variant}", "")

    @run_before("performance")
    def report_figures(self):
        """Hand the figures to ReFrame: the subject's value, and for containers the bare one and the overhead."""
        if self.is_dry_run():
            return
        for name, value, unit in self.prepared.record.verdict["performance"]:
            self.perf_variables[name] = make_performance_function(lambda value=value: float(f"{value:.6g}"), unit)

    @run_after("performance")
    def judge(self):
        """Fail when an overhead is above its tolerance or not the expected one; warn when that is not clear."""
        if self.is_dry_run():
            return
        verdict = self.prepared.record.verdict
        if verdict["failures"] and self.strict_check:
            lines = [*verdict["failures"], self.where_time_went, *verdict["explained"]]
            raise PerformanceError("\n".join(filter(None, lines)))
        # ReFrame keeps the output directory, and removes the stage directory.
        self.reproducer = self.reproducer and str(Path(self.outputdir, contract.REPRODUCER))
        for line in [*self.notes, *verdict["doubts"]]:
            getlogger().warning(f"{self.display_name}: {line}")


class OneNodeCheck(ContainerCheck):
    """An application without MPI: one process on one node, with nothing of the host to bring into its image."""

    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    ranks_per_node = 1
