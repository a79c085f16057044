"""Define the needs of a check, the results of providers, and helpers of providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reframe.core.exceptions import ReframeError

from containercheck.job import contract
from containercheck.job.container_runtimes import Runtime
from containercheck.sides.sides import Candidate
from containercheck.site.sites import Site

#: Directories of the checks, of environments of Spack, and of easyconfigs.
CHECKS = contract.CHECKS
ENVIRONMENTS, EASYCONFIGS = (CHECKS.parent / name for name in ("spack-envs", "easyconfigs"))

#: Names of the compiler of MPI by family, for hosts with both: Debian's.
_COMPILERS = {"mpich": "mpicc.mpich", "openmpi": "mpicc.openmpi"}


class Unavailable(Exception):
    """Report software or an image that was not named and is not available on this partition: the reason for a skip."""


class Misconfigured(ReframeError):
    """Report something that was named (site file, ``-S``, a check's file) and does not exist: the check fails."""


@dataclass(frozen=True)
class Wanted:
    """State the needs of a check on a partition; see the variables of the same names in application/interface.py.

    :ivar check: name of the check.
    :ivar modules: modules that the job loads.
    :ivar own_modules: those of the site's own software among them.
    :ivar environ: variables of the bare program.
    :ivar debian: packages of Debian with the program.
    :ivar of_site: whether the site file names the source of the program.
    :ivar published: the published input that replaces the embedded one; empty for none.
    :ivar recipe: recipe of the image; None for a check without an image.
    :ivar image: a ready image that replaces the recipe's: a path, or a name in a registry.
    :ivar candidates: runtimes or images that are compared, if any.
    :ivar runtime: None for a check without a container, or if no runtime is there.
    :ivar default_spack: the check's own environment of Spack, for the image if the site has another program.
    :ivar stack: ``same`` for an image with the tree that bare runs, ``debian`` for the recipe's own software; None for
        ``same`` if the tree can be packed.
    :ivar nodes: nodes of the job.
    :ivar each_node: whether the job can run a command on each of its nodes (job/processes.py).
    :ivar copied: whether the image is to be copied to the memory of the node.
    :ivar runtime_modules: modules that the job loads for the runtime.
    :ivar release: code name of the image's Debian; empty for the one that fits the partition's hosts.
    :ivar dry: whether nothing will run (dry run): then nodes are not queried.
    :ivar gpu: whether the program uses the node's GPUs.
    """

    check: str
    executable: str
    modules: tuple[str, ...] = ()
    own_modules: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    compile_options: tuple[str, ...] = ()
    static_mpi: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    debian: tuple[str, ...] = ()
    of_site: bool = False
    requirements: str | None = None
    artifacts: str | None = None
    spack: str | None = None
    easybuild: str | None = None
    library: str | None = None
    mpi_times: bool = False
    view_directory: str = "bin"
    published: str = ""
    mpi_family: str | None = None
    recipe: str | None = None
    image: str | None = None
    candidates: tuple[Candidate, ...] = ()
    runtime: Runtime | None = None
    default_spack: str | None = None
    stack: str | None = None
    nodes: int = 1
    each_node: bool = False
    copied: bool = False
    runtime_modules: tuple[str, ...] = ()
    release: str = ""
    dry: bool = False
    gpu: bool = False


@dataclass(frozen=True)
class Provision:
    """Describe the program, images and commands that a provider makes available.

    :ivar program: the bare program's command.
    :ivar image: the image: a path in the job, or a name in a registry.
    :ivar images: images of candidates with images of their own, by the candidate's name.
    :ivar published: path of the published input in the job.
    :ivar build: commands of the build step.
    :ivar activate: commands of the job, before the rounds.
    :ivar provenance: entries for the results.
    """

    program: str | None = None
    image: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    published: str = ""
    build: tuple[str, ...] = ()
    activate: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Provision) -> Provision:
        """Return both together; each thing comes from one provider."""
        return Provision(
            self.program or other.program,
            self.image or other.image,
            {**self.images, **other.images},
            self.published or other.published,
            (*self.build, *other.build),
            (*self.activate, *other.activate),
            {**self.provenance, **other.provenance},
        )


def compiler_of(wanted: Wanted, site: Site) -> str:
    """Return the name of the compiler of C programs with MPI, of the family that the check wants."""
    family = wanted.mpi_family or site.mpi_family
    return "mpicc" if family == site.mpi_family else _COMPILERS[family]


def architecture_of(site: Site) -> str:
    """Return the architecture that software is built for.

    :raises Unavailable: the site file does not have it.
    """
    if site.architecture is None:
        raise Unavailable(
            f"architecture unknown: write 'arch' of {site.partition} into the site file, under 'processor'"
        )
    return site.architecture
