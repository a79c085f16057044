"""Declare sides that differ in how programs at the same time share a node's cores, with DLB (D12.5 section 3.1).

DLB (Dynamic Load Balancing, BSC) is preloaded into MPI programs. Its LeWI module lends the cores of a rank that waits
in MPI to others; ranks that use the same shared memory share their cores.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

import reframe.utility.typecheck as typ
from reframe.core.builtins import run_before, variable
from reframe.core.exceptions import ReframeError

from containercheck.application.declare import Neighbour, side_by_side
from containercheck.check.variants import VariantSides
from containercheck.job import contract
from containercheck.sides import launchers
from containercheck.sides.sides import Program, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Libraries that are preloaded into ranks, in the stage directory, which is a container's working directory too: the
#: OpenMP runtime in all sides, so that no difference of runtimes counts as a gain, and DLB's.
_OPENMP, _DLB = f"./{contract.DLB}/libomp.so", f"./{contract.DLB}/libdlb_mpi.so"
#: Variables of all ranks. A waiting rank leaves its core to the rank that borrowed it (Open MPI polls otherwise). So
#: does an OpenMP thread without work. DLB's manual asks for both.
_WAITING = {"OMP_WAIT_POLICY": "passive", "OMPI_MCA_mpi_yield_when_idle": "1"}
#: LeWI with lists of cores, because DLB 3 loses count of mere numbers of cores with LLVM's OpenMP.
_LEWI = "--lewi --lewi-affinity=nearby-first"


#: Ranks and threads of the five programs of D12.5's use case (section 3.2, figure 16), which fill 48 cores.
FIVE = ((3, 2), (6, 3), (2, 2), (2, 5), (5, 2))
#: Mixes on the 24 cores of a socket (tables 1 and 2).
MIXES = {"2x12": (2, 12), "4x6": (4, 6), "6x4": (6, 4), "8x3": (8, 3), "12x2": (12, 2)}
#: The mix on a whole node of a single program, Amber (section 3.3.2).
WHOLE = {"8x6": (8, 6)}
#: Cores on which each use case fits.
MOST_CORES = 48


def mixes(name: str, cores: int) -> list[tuple[int, int]]:
    """Return ranks and threads of the programs of a use case; none if it does not fit.

    :param name: ``one`` or ``two`` programs with a rank on each of their cores; ``five`` as in D12.5; or one of its
        mixes: alone on a socket (``1 of 8x3``), one on each socket (``2 of 8x3``), or alone on a node (``8x6``).
    """
    if name in ("one", "two"):
        count = ("one", "two").index(name) + 1
        return [(cores // count, 1)] * count if cores >= count else []
    fixed = {"five": [*FIVE], **{mix: [ranks_and_threads] for mix, ranks_and_threads in WHOLE.items()}}
    chosen = fixed[name] if name in fixed else [MIXES[name[5:]]] * int(name[0])
    return chosen if sum(ranks * threads for ranks, threads in chosen) <= cores else []


@dataclass(frozen=True)
class Policy:
    """Describe how programs on a node share cores.

    :ivar name: name of its sides.
    :ivar label: name for people, as in D12.5.
    :ivar arguments: DLB's arguments; None to run without DLB.
    :ivar shares: whether programs get each other's cores, and not only the ranks of a program among themselves.
    :ivar lends: whether ranks get cores that are not their own.
    :ivar own_shm: whether the container of each program has its own /dev/shm, in which DLB sees no other program.
    """

    name: str
    label: str
    arguments: str | None = None
    shares: bool = False
    lends: bool = False
    own_shm: bool = False

    def environment(self, program: str) -> dict[str, str]:
        """Return the variables of the ranks of a program, as words of a shell; ``$$`` is the script's process."""
        if self.arguments is None:
            return {**_WAITING, "LD_PRELOAD": _OPENMP}
        # Each run has its own key: by default all of a user's programs on the node would share.
        key = "cc$$" if self.shares else f"cc$$-{program}"
        arguments = f'"{self.arguments} --shm-key={key}"'
        return {**_WAITING, "DLB_ARGS": arguments, "LD_PRELOAD": f"{_OPENMP}:{_DLB}"}


#: D12.5's scenarios (sections 3.1 and 3.2, appendix), and a container's own /dev/shm (section 4). D12.5's prototype of
#: TALP moved cores by its measurements. It is not part of DLB 3: there TALP measures, and its report is read.
POLICIES = (
    Policy("no_dlb", "no DLB"),
    Policy("isolation", "isolation", _LEWI, lends=True),
    Policy("affinity", "affinity aware", "--lewi --lewi-affinity=nearby-only", shares=True, lends=True),
    Policy(
        "affinity_post_mortem",
        "affinity aware + post-mortem",
        "--lewi --lewi-affinity=nearby-only --debug-opts=lend-post-mortem",
        shares=True,
        lends=True,
    ),
    Policy("sharing", "full sharing", _LEWI, shares=True, lends=True),
    Policy(
        "sharing_post_mortem",
        "full sharing + post-mortem",
        f"{_LEWI} --debug-opts=lend-post-mortem",
        shares=True,
        lends=True,
    ),
    Policy("talp", "TALP", "--talp", shares=True),
    Policy("own_shm", "full sharing, a /dev/shm each", _LEWI, shares=True, lends=True, own_shm=True),
)


class CollocationSides(VariantSides):
    """Run several programs on a node at the same time: ``class MyCode(CollocationSides, ContainerCheck)``.

    The check has an axis ``use_case`` (see :func:`mixes`), and sets ``neighbours`` before its sides are made. Bare,
    each policy is compared with running without DLB; in a container, with the same policy bare. The report shows the
    gain of a policy in a container (report/scaling.py).
    """

    #: Names of the policies that run; a policy that only containers can have is left out without a container.
    policies = variable(typ.List[str], value=[policy.name for policy in POLICIES], loggable=True)
    input_commands: list[str]
    #: Programs that run at the same time.
    neighbours: tuple[Neighbour, ...] = ()

    def mixes_on(self, cores: int) -> list[tuple[int, int]]:
        """Return ranks and threads of each program on a node with this many cores; none if they do not fit."""
        return mixes(self.use_case, cores)

    def ranks_on_node(self, site: Site) -> int:
        """Return the ranks of all programs together.

        :raises LayoutError: they do not fit on a node.
        """
        mixes = self.mixes_on(site.cores or 0)
        if not mixes:
            raise LayoutError(
                f"its programs do not fit on a node: {site.partition} has {site.cores or 'unknown'} cores"
            )
        return sum(ranks for ranks, _ in mixes)

    @property
    def program_names(self) -> tuple[str, ...]:
        """Names of the programs of this mix."""
        return tuple(program.name for program in side_by_side(self.mixes_on(MOST_CORES)))

    @property
    def chosen_policies(self) -> list[Policy]:
        """Return the policies that are run, that without DLB first.

        :raises ReframeError: there is no such policy.
        """
        known = [policy.name for policy in POLICIES]
        unknown = sorted(set(self.policies) - set(known))
        if unknown:
            raise ReframeError(f"policies: there is no {', '.join(unknown)}; known are {', '.join(known)}")
        chosen = {*self.policies, POLICIES[0].name}
        return [policy for policy in POLICIES if policy.name in chosen and (self.contained or not policy.own_shm)]

    @property
    def side_count(self) -> int:
        """Number of sides in a round."""
        return len(list(self._pairs())) if self.contained else len(self.chosen_policies)

    def sides(self) -> list[Side]:
        """Return a side for each policy; with a container, a bare side too, except for policies of containers only."""
        if not self.contained:
            return [self._bare_policy_side(policy) for policy in self.chosen_policies]
        return [
            self._contained_side(policy) if inside else self._bare_policy_side(policy, compared=False)
            for policy, inside in self._pairs()
        ]

    def _pairs(self) -> Iterable[tuple[Policy, bool]]:
        """Yield policies, and whether in the container; a /dev/shm each is measured by isolation, bare."""
        for policy in self.chosen_policies:
            if not policy.own_shm:
                yield policy, False
            yield policy, True

    def _bare_policy_side(self, policy: Policy, compared: bool = True) -> Side:
        is_first = policy is POLICIES[0]
        name, label = policy.name, policy.label
        if self.contained:
            name, label = f"bare_{name}", f"bare, {label}"
        return Side(
            contract.BASELINE if is_first else name,
            "bare" if is_first and self.contained else label,
            self._beside(policy, self.prepared.program),
            self._launcher(),
            environment=self.prepared.software.environ,
            compared_with=None if is_first or not compared else contract.BASELINE,
            shares_cores=policy.lends,
        )

    def _contained_side(self, policy: Policy) -> Side:
        program = self._beside(policy, self.prepared.program_in_image)
        twin = "isolation" if policy.own_shm else policy.name
        others = {chosen.name for chosen in self.chosen_policies[1:]}
        measure = f"bare_{twin}" if twin in others else contract.BASELINE
        return Side(
            contract.SUBJECT if policy is POLICIES[0] else policy.name,
            f"{self.variant}, {policy.label}",
            program,
            self._launcher(self.variant == "generic"),
            self._container(program, self.runtime),
            compared_with=measure,
            shares_cores=policy.lends,
        )

    def _beside(self, policy: Policy, executable: str) -> Program:
        program = self._program(executable.removesuffix(self.program_suffix))
        return replace(program, neighbours=tuple(self._started(policy, neighbour) for neighbour in self.neighbours))

    def _started(self, policy: Policy, neighbour: Neighbour) -> Neighbour:
        """Return one of the programs with its variables and its launcher, which binds nothing: the script does."""
        options = [*self.prepared.software.launcher_options]
        if self.job.launcher.registered_name.startswith("srun"):
            # Steps of a job otherwise wait for each other's cores.
            options += [f"-n {neighbour.ranks}", f"-c {neighbour.threads}", "--overlap"]
        layout = Layout(1, neighbour.ranks, neighbour.threads, "none")
        words = launchers.partition_launcher(self.job, self.site, layout, options).words
        binds = {"/dev/shm": f"{self.stagedir}/shm/{neighbour.name}"} if policy.own_shm else {}
        environment = {**neighbour.environment, **policy.environment(neighbour.name)}
        return replace(neighbour, launcher=words, environment=environment, binds=binds)

    @run_before("run")
    def prepare_node(self) -> None:
        """Write the list of cores, and copy DLB into the stage directory; without it, the check is skipped."""
        cores = sum(neighbour.cores for neighbour in self.neighbours)
        shm = [f"mkdir -p {shlex.quote(f'{self.stagedir}/shm/{neighbour.name}')}" for neighbour in self.neighbours]
        self.input_commands = [
            *self.input_commands,
            node_commands.in_job(self.site, "neighbours", "cores", cores),
            node_commands.in_job(self.site, "neighbours", "dlb"),
            *(shm if self.contained else []),
        ]
