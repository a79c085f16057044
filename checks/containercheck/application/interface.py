"""Declare the attributes of an application file and the options of a session, and refuse unknown ones.

ReFrame prints only an early warning in its log if ``-S`` could not set a variable. It reports a case that is skipped in
its initialisation only in its verbose log.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, required, run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from containercheck import reframe_internals
from containercheck.application.declare import PROGRAM, Answer, Identity, Metric, Step, Work
from containercheck.job import contract, texts
from containercheck.job.explain.causes import MOST
from containercheck.site import extras, node_commands, sites
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

#: Similarity from which on an attribute's name counts as a misspelt name of a fact.
ALIKE = 0.85
#: Packages of classes that are not an application's.
_FOREIGN = (__name__.partition(".")[0], "reframe", "builtins")


class UnknownVariable(ReframeError):
    """Report that ``-S`` sets something that does not exist. The commands in ``ci/`` then run nothing."""


class ApplicationFacts(rfm.RegressionTest):
    """State the facts of an application, and the options of a session; check/base.py uses them.

    Facts that are lists or dictionaries are variables of ReFrame, which gives each case its own copy. The other
    facts are plain attributes, so ``-S`` cannot set them.
    """

    #: The partition and the ranks of a side, which the setup phase sets.
    site: Site
    layout: Layout

    #: How the application runs: on the host, in a container with the host's MPI, or in a self-contained container.
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    #: Nodes of the job.
    num_nodes = parameter(sites.node_counts(), loggable=True)
    #: Container runtime: the partition's default, or another one of its ``container_platforms``, on the full axes. Only
    #: with a site that has several is it an axis, so that the names of cases are short.
    platform: Any = (
        parameter([contract.FIRST_PLATFORM, *sites.further_platforms()], loggable=True)
        if sites.further_platforms()
        else contract.FIRST_PLATFORM
    )

    # Facts: the program and its source.

    #: Name of the definition file in ``images/``; only a check that has no container states none.
    recipe: str | None = None
    #: Source below ``checks/src`` of the project's own program, C, C++ or a script; the image has it on its PATH.
    source: str | None = None
    #: Options of the compiler, libraries last; the image's recipe has the same.
    compile_options = variable(typ.List[str], value=[])
    #: Whether a program in C is linked a second time, with its MPI in itself; that has ``contract.STATIC`` at the end
    #: of its name.
    static_mpi: bool = False
    #: For C++: required headers, and Debian's package of each; without them the check is skipped.
    headers = variable(typ.Dict[str, str], value={})
    #: Debian packages with the bare program: ``ci/setup`` installs them, and a skip without it names them. They must be
    #: literals, because they are read without running the file.
    debian = variable(typ.List[str], value=[])
    #: Whether program and input cannot be downloaded: the site provides both, with options and patterns
    #: (software/host.py).
    site_provides_input: bool = False
    #: Environment of Spack in ``spack-envs/`` with the program.
    spack: str | None = None
    #: Easyconfig of the program: a name in ``easyconfigs/`` or of EasyBuild's own, or a path.
    easybuild: str | None = None
    #: Directory of the program in the view of the Spack environment.
    view_directory: str = "bin"
    #: A library that is loaded into the program and does not belong to it: a name of ``spack-envs/``. The environment
    #: provides it if nothing else names its directory. In the job, ``<NAME>_HOME`` has that directory.
    library: str | None = None
    #: Pinned requirements from PyPI with the program, a file below ``checks/src``; the image installs the same.
    requirements: str | None = None
    #: Pinned jars from a Maven repository, a file below ``checks/src``; in the job they are in ``jars/``.
    artifacts: str | None = None
    #: Family of the program's MPI, if it is not the one of the partition's launcher: ``mpich``
    #: (Intel MPI, MVAPICH and Cray MPI have its ABI too).
    mpi_family: str | None = None

    # Facts: its output.

    #: Metrics that the program reports.
    metrics = variable(typ.List[Metric], value=[], loggable=False)
    #: Answers that it computes.
    answers = variable(typ.List[Answer], value=[], loggable=False)
    #: Whether it has no metrics on purpose: only that it runs, and its answers, are checked.
    smoke_test: bool = False
    #: Properties of its build that it prints, which bare and container should have in common.
    identity = variable(typ.List[Identity], value=[], loggable=False)
    #: How its number of ranks is read; None for a program that is not started by MPI's launcher.
    rank_count: Answer | None = None
    #: Files that every run writes and that metrics or answers are read from.
    output_files = variable(typ.List[str], value=[])

    # Facts: how it runs.

    #: A program that starts the command in place of MPI's launcher, with its options.
    started_by: str | None = None
    #: Whether the integrated variant preloads the host's MPI into a program without MPI, bare and in the container.
    preloads_mpi: bool = False
    #: Suffix of the program's name, if each case has its own program.
    program_suffix = ""
    #: The commands of an application that runs in several steps; they replace executable and options.
    steps = variable(typ.List[Step], value=[], loggable=False)
    #: Commands that make the input, once, before all runs; for input that takes time to make.
    input_commands = variable(typ.List[str], value=[])
    #: Commands that restore the initial state of the working directory before each run.
    reset_commands = variable(typ.List[str], value=[])
    #: Files outside the stage directory that the job removes when it ends.
    own_files = variable(typ.List[str], value=[])
    #: Files and directories to bind into containers, as ``path`` or ``path:target``.
    binds = variable(typ.List[str], value=[])
    #: Further options of the container runtime.
    container_options = variable(typ.List[str], value=[])
    #: Directory on the node to which the image is copied for the job; by default it is not copied.
    image_directory = variable(str, value="")
    #: Way of the runtime to run the image (job/container_runtimes.py); empty for its usual one.
    way: str = ""
    #: Whether the processors of a virtual machine are kept busy between and during the runs (job/this_node.py).
    keep_awake: bool = True
    #: Fewest ranks that the program makes sense with.
    min_ranks: int = 1
    #: Work of a run with the embedded input; a property if it depends on the case. None if it is not known.
    work: Work | None = None
    #: Whether rounds spread less if both sides run at the same time on a virtual machine (``ci/benchmark noise``).
    gains_by_duet: bool = False
    #: Values of the check's own axes in a default run, by parameter; other cases belong to the full axes.
    plain = variable(dict, value={}, loggable=False)
    #: Whether this case belongs to the full axes, even if its values are in ``plain``.
    full_only: bool = False
    #: Seconds after which a run of the full axes counts as hanging; None for ``run_limit``.
    full_run_limit: float | None = None

    # Options of a session, and of an application file.

    #: Whether the time in MPI is measured, per rank and function, by a library that is preloaded into all sides.
    mpi_times = variable(typ.Bool, value=False, loggable=True)
    #: Code name of the Debian that the image is built from; empty for the site's choice (site/hosts.py).
    release = variable(str, value="")
    #: Commands of container runtimes to compare, by name: the later ones are judged as successors of the first
    #: (ci/acceptance). Of several kinds, each is compared with bare; apptainer+unpacked is one of the ways of a runtime
    #: (job/container_runtimes.py). None are compared by default.
    runtimes = variable(typ.Dict[str, str], value={}, loggable=True)
    #: Ready images to compare in the same way: paths.
    compared_images = variable(typ.Dict[str, str], value={}, loggable=True)
    #: A ready image for this session, in place of the site's and of the recipe's: a path, or a name in a registry.
    ready_image = variable(str, value="", loggable=True)
    #: Whether only images are wanted, and nothing is run (``containercheck images``): ``build`` builds or pulls them,
    #: with the software of their checks; ``list`` only reports them.
    images_only = variable(str, value="")
    #: Whether the program uses GPUs if the partition has any, in its ``devices``.
    gpu = variable(typ.Bool, value=False)
    #: Ranks on a node; None for one for each group of ``threads`` cores.
    ranks_per_node = variable(int, type(None), value=None)
    #: Threads of a rank; 0 for as many as use all the node's cores.
    threads = variable(int, value=1, loggable=True)
    #: Seconds for all rounds of a container check: they end sooner when every metric has its verdict.
    seconds = variable(float, int, value=60.0)
    #: Number of rounds, for any verdict; 0 lets the verdict and the time decide. A bare check runs once: it compares
    #: nothing.
    rounds = variable(int, value=0)
    #: Whether both sides run at the same time: each on half of the cores, then once more with the halves swapped. The
    #: host of a virtual machine then disturbs both alike (sides/rounds.py). By default they do on a virtual machine if
    #: the check gains by it (``gains_by_duet``) and all its metrics suit it.
    duet = variable(typ.Bool, type(None), value=None)
    #: Node-hours that a job may take; 0 for the limit of its rounds only.
    node_hours = variable(float, int, value=0)
    #: Seconds without disturbance that the first round waits for: ReFrame may still read the output of the job before.
    quiet = variable(float, int, value=contract.QUIET)
    #: Seconds after which a run counts as hanging.
    run_limit = variable(float, int, value=600.0)
    #: Accepted overhead in percent, for metrics without a tolerance.
    tolerance = variable(float, int, value=5.0, loggable=True)
    #: The published input, if the site has it, in place of the embedded one; the check describes it. A path,
    #: or an address that ends with ``#sha256=<digest>`` (job/build/downloads.py); also in the site's extras, software.
    published = variable(str, value="")
    #: Values of variables with which a generated input is that of the document.
    published_values: Mapping[str, Any] = {}
    #: Input of this case, a key of references: ``embedded``, or ``published``, the one that the document used.
    input = variable(str, value="embedded", loggable=True)
    #: Whether the cases of the full axes are generated too: ``-S full=yes``, or ``--mode=full`` with config/common.py.
    full = variable(typ.Bool, value=False)
    #: Most changes to a container that are tried after it failed, to prove the cause.
    remedies = variable(int, value=MOST)
    #: ReFrame's report of an earlier session; its rounds of the same case count (``containercheck run --resume``).
    earlier = variable(str, value="")
    #: Path of a file, written by ``ci/run``, with the spreads of earlier sessions, by partition, case and metric.
    known_spreads = variable(str, value="")
    #: Path of a file, written by ``containercheck nightly``, with the nodes that its reruns avoid or use.
    rerun_nodes = variable(str, value="")

    # Results, for the reports: ReFrame logs them.

    #: Expected time and memory of the job, for ``ci/run --estimate``. Empty if the check does not know.
    expected = variable(dict, value={}, loggable=True)
    #: Why the check was not run; ReFrame's own report lacks it.
    skip_reason = variable(str, value="", loggable=True)
    #: A row for each metric, as it is stored (results/row.py).
    results = variable(typ.List[dict], value=[], loggable=True)
    #: Remarks on the run besides its metrics: rounds that were replaced, a job that ended early.
    notes = variable(typ.List[str], value=[], loggable=True)
    #: The metrics of each round, by side; also for a later session that goes on from here.
    measured = variable(typ.List[dict], value=[], loggable=True)
    #: Path of the script that repeats a single run of a side (job/launch.py); empty without rounds.
    reproducer = variable(str, value="", loggable=True)
    #: The compared things: sides, runtimes, images, layout, work, commands (results/earlier_sessions.py). For a later
    #: session.
    compared = variable(dict, value={}, loggable=True)
    #: Possible causes of the failed metrics, and the results of experiments (job/explain/explanation.py).
    causes = variable(typ.List[dict], value=[], loggable=True)
    #: Use of the extra time of a container that is too slow, in one line; empty if that does not explain its metrics.
    where_time_went = variable(str, value="", loggable=True)
    #: Provenance: runtimes, SHA-256 of the image, MPI libraries of each side, input.
    provenance = variable(dict, value={}, loggable=True)
    #: Seconds that the application itself ran, all rounds together.
    application_seconds = variable(float, int, value=0.0, loggable=True)
    #: Seconds that the job had its nodes; 0 if it left no record.
    job_seconds = variable(float, int, value=0.0, loggable=True)

    maintainers = ["the containercheck developers"]
    valid_prog_environs = ["*"]
    build_system = "CustomBuild"
    sourcesdir = None
    #: Undefined until a case is there (``start_with_no_variables``): ReFrame 4.10 walks the stack, twice for each case
    #: that it generates, for the old name of a defined one; that was two thirds of the time of a listing.
    env_vars = required

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        """Return the attributes that ReFrame logs: all but ``env_vars`` and its old name, because values may be secret.

        ReFrame 4.10 reads all attributes several times at each poll, and walks the stack because of ``variables``. This
        took most of ReFrame's processor time during measurements.
        """
        metaclass: Any = type(cls)
        return [pair for pair in metaclass.loggable_attrs(cls) if pair[0] not in ("variables", "env_vars")]

    @run_after("init")
    def start_with_no_variables(self) -> None:
        """Set no environment variables, if neither the file nor the command line does."""
        if not hasattr(self, "env_vars"):
            self.env_vars = {}

    # ReFrame runs hooks with always_last in reverse order: this one is the last of all.
    @run_after("init", always_last=True)
    def leave_out_full_axes(self) -> None:
        """Generate no case of the full axes, unless ``full`` is set."""
        if self.full_only and not self.full:
            self.skip("belongs to the full axes: --full, or -S full=yes with reframe")

    @run_after("init", always_last=True)
    def require_declarations(self) -> None:
        """Stop the session, in one line, if the application file misspells a fact or states no image.

        ReFrame would make a warning of any other exception, leave out the check, and pass.

        :raises SystemExit: the message names the mistake and the file.
        """
        of: Any = type(self)
        problem = _misspelt(of)
        if self.contained and not self.recipe:
            problem = problem or "has no recipe: state the definition file of its image, recipe = 'NAME' of images/"
        if problem:
            sys.exit(f"containercheck: {inspect.getfile(of)}: {of.__name__} {problem}")

    @run_after("setup")
    def require_known_variables(self) -> None:
        """Fail if the command line sets a variable that does not exist: something else would be measured."""
        require_known(type(self))

    @run_before("run", always_last=True)
    def require_metrics(self) -> None:
        """Fail if neither the file nor its hooks state a metric."""
        if not self.metrics and not self.smoke_test:
            raise ReframeError(
                f"{type(self).__name__} has no metrics: it would pass with nothing measured. State metrics = "
                "[Metric(...)], or smoke_test = True if that is intended"
            )

    @property
    def contained(self) -> bool:
        """Whether the subject runs in a container."""
        return self.variant != "bare"

    @property
    def python(self) -> str:
        """Return the Python of the nodes, quoted, for scripts that need only 3.6 and its standard library."""
        return node_commands.python_of(self.site)

    @property
    def takes_published(self) -> bool:
        """Whether this case runs the published input; override it if only some cases of a check do."""
        return bool(self.site.input_of(type(self).__name__, self.published))

    @property
    def known_work(self) -> Work | None:
        """Work of a run; None if it is not known, as with the published input."""
        return None if self.takes_published else self.work

    @property
    def amount(self) -> float:
        """Amount of work of a run with the embedded input in this case, in the unit of ``work``."""
        if self.work is None:
            raise ReframeError(f"{type(self).__name__} has no work: only its published input is known")
        return self.work.amount(self.layout.cores)

    @property
    def program(self) -> str:
        """Return the placeholder of the program in a step's command: bare it may be another one than in the image."""
        return PROGRAM

    def own(self, name: str) -> str:
        """Return the path of a file below ``checks/src``, quoted."""
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


@functools.cache
def _misspelt(of: Any) -> str:
    """Return the message about an attribute with almost the name of a fact, which nothing would read.

    Empty for none. Hooks and properties of the application, its own variables and parameters are not misspelt.
    """
    own_classes = [base for base in of.__mro__ if base.__module__.partition(".")[0] not in _FOREIGN]
    known = {*of.var_space.keys(), *of.param_space.params}
    known.update(*(vars(base) for base in of.__mro__ if base not in own_classes))
    facts = [name for name in known if not name.startswith("_")]
    for base in own_classes:
        for name, value in vars(base).items():
            if name.startswith("_") or name in known or callable(value) or hasattr(value, "__get__"):
                continue
            if near := difflib.get_close_matches(name, facts, 1, ALIKE):
                return f"sets {name!r}, which nothing reads: did you mean {near[0]!r}?"
    return ""


def require_known(of: type, argv: Sequence[str] | None = None) -> None:
    """Check all values that the command line sets for a check.

    :param argv: words of the command line; ReFrame's own by default.
    :raises UnknownVariable: a variable or a check does not exist; the message has the nearest name.
    """
    words = reframe_internals.options_of(sys.argv[1:] if argv is None else argv).setvar
    loaded = loaded_classes() if words else {}
    for word in words:
        problem = _problem(of, word, loaded)
        if problem:
            raise UnknownVariable(f"-S {word}: {problem}")


def loaded_classes(of: Any = rfm.RegressionTest) -> dict[str, Any]:
    """Return all loaded classes of checks by name, base classes included."""
    classes: dict[str, Any] = {}
    for check in of.__subclasses__():
        classes.update({check.__name__: check, **loaded_classes(check)})
    return classes


def _problem(of: Any, word: str, loaded: Mapping[str, Any]) -> str:
    """Return the problem of a setting for this check; empty for none, and for a setting of another check."""
    name, equals, _ = word.partition("=")
    if not equals:
        return "it needs a name and a value, as in -S rounds=10"
    # A variable of a fixture is named check.fixture.variable.
    check, variable = name.split(".", 1) if "." in name else ("", name)
    if check and check != of.__name__:
        checks = extras.checks()
        return "" if check in checks else f"there is no check {check}{_question(check, checks)}"
    # Without a check, other checks of the session may have it, of any library.
    if "." in variable or any(variable in other.var_space for other in ([of] if check else loaded.values())):
        return ""
    # ReFrame's namespace iterates over items.
    near = _question(variable, [known for known, _ in of.var_space.items() if not known.startswith("_")])
    return f"there is no such variable{near} (reframe --describe -n {of.__name__} lists them)"


def _question(name: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known name; empty if none is near."""
    near = extras.nearest(name, known)
    return f": did you mean {near}?" if near else ""
