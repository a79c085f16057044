"""Sites and layouts: what is known of a partition, and how ranks lie on it."""

from __future__ import annotations

import itertools
import os
import platform
import runpy
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY
from containercheck.application.axes import ALL_CORES, PLAIN, RanksPerNode, ThreadsPerRank
from containercheck.sides import launchers
from containercheck.site import extras, sites
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site, SiteError, Software
from reframe.core import config
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import Job
from reframe.core.systems import System

TEMPLATE = REPOSITORY / "config" / "template.py"
PROCESSOR = {"arch": "zen2", "num_cpus": 16, "num_cpus_per_core": 2, "num_cpus_per_socket": 8, "num_sockets": 2}


@pytest.fixture
def partition(tmp_path):
    """Let ReFrame read a site file with one partition, with extras of ours and of others beside them."""
    files = itertools.count()

    def make(extras=None, beside=None, **facts):
        remote = {"scheduler": "slurm", "launcher": "srun"}
        partition = {"name": "compute", "environs": ["builtin"], **remote, **facts}
        partition["extras"] = {**({} if extras is None else {"containercheck": extras}), **(beside or {})}
        system = {"name": "cluster", "hostnames": [".*"], "partitions": [partition]}
        # ReFrame reads a file once.
        path = tmp_path / f"site{next(files)}.py"
        path.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
        return loaded(path, "cluster")

    return make


def loaded(path, system):
    configuration = config.load_config(str(path))
    configuration.select_subconfig(system)
    (found,) = System.create(configuration).partitions
    # To ReFrame, partitions of one name are equal; a session has one.
    sites._site.cache_clear()
    return found


def test_the_architecture_is_the_partitions(partition):
    # A site's own word counts where archspec does not know it.
    known = {"zen2": "x86_64", "power9le": "ppc64le", "thunderx2": "aarch64", "riscv64": "riscv64", "pdp11": "pdp11"}
    for arch, architecture in known.items():
        assert Site.of(partition(processor={**PROCESSOR, "arch": arch})).architecture == architecture


def test_a_remote_partition_that_does_not_say_is_not_known(partition):
    found = Site.of(partition())
    assert (found.architecture, found.cores, found.gpus, found.is_here) == (None, None, 0, False)
    assert found.memory == 16 << 30
    without_arch = {name: value for name, value in PROCESSOR.items() if name != "arch"}
    found = Site.of(partition(processor=without_arch))
    assert (found.architecture, found.cores) == (None, 8)


def test_a_local_partition_is_this_machine(partition):
    found = Site.of(partition(scheduler="local", launcher="local"))
    assert found.is_here
    assert found.architecture == platform.machine()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert Site.of(partition(scheduler="local", launcher="local", processor=PROCESSOR)).cores == 8


def test_cores_are_physical_ones_and_gpus_are_counted(partition):
    devices = [
        {"type": "gpu", "arch": "sm_70", "num_devices": 3},
        {"type": "gpu", "arch": "sm_80", "num_devices": 1},
        {"type": "nic", "arch": "hdr", "num_devices": 7},
    ]
    found = Site.of(partition(processor=PROCESSOR, devices=devices))
    assert (found.partition, found.cores, found.gpus, found.gpu_arch) == ("cluster:compute", 8, 4, "sm_70")


def test_extras_that_are_given_are_taken_and_the_others_have_their_defaults(partition):
    found = Site.of(partition(extras={"max_nodes": 8, "memory_per_node": 1 << 30, "image_mirror": None}))
    assert (found.max_nodes, found.memory) == (8, 1 << 30)
    assert found.image_mirror is found.images is None
    assert (found.binding, found.exclusive, found.hardware_threads, found.time_limit) == ("cores", True, 1, None)
    assert Site.of(partition()).max_nodes == 1


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"max_node": 4}, "unknown 'max_node': did you mean 'max_nodes'?"),
        ({"gpu_queue": "x"}, "unknown 'gpu_queue': there are binding, "),
        ({"max_nodes": "8"}, "max_nodes is '8', and must be of the type int"),
        ({"max_nodes": True}, "max_nodes is True, and must be of the type int"),
        ({"binds": "/apps"}, "binds is '/apps', and must be of the type List[str]"),
        ({"tolerances": {"StartUp": {"start": "1 s"}}}, "and must be of the type Dict["),
        ({"tolerances": {"StatUp": {}}}, "tolerances: unknown 'StatUp': did you mean 'StartUp'?"),
        ({"software": {"GROMACS": {"module": []}}}, "software: GROMACS: unknown 'module': did you mean 'modules'?"),
        ({"software": {"GROMACS": {"modules": "a"}}}, "software: GROMACS: modules is 'a', and must be of the type L"),
        ({"software": {"GROMCAS": {}}}, "did you mean 'GROMACS'?"),
        ({"images": {"HPCC": "a.sif"}}, "images: unknown 'HPCC': did you mean 'hpcc'?"),
        ({"software": {"GROMACS": {"spack": "a", "easybuild": "b"}}}, "GROMACS: spack or easybuild, not both"),
        ({"venv_cache": "/shared"}, "unknown 'venv_cache': did you mean 'caches'?"),
        ({"binding": "socket"}, "binding is 'socket', and must be one of cores, none"),
        ({"release": "etch"}, "release is 'etch', and must be one of"),
        ({"software": {"PACE3D": {"patterns": {"LUPS": r"^rate \S+"}}}}, "LUPS has 0 groups, and needs one, for the v"),
        ({"software": {"PACE3D": {"patterns": {"LUPS": "^rate ("}}}}, "patterns: LUPS is not a regular expression: "),
        ({"memory_per_node": 512}, "memory_per_node is 512, and must be at least 134217728"),
        ({"max_nodes": 0}, "max_nodes is 0, and must be at least 1"),
        ({"software": {"GROMACS": {"tolerance": 0.05}}}, "tolerance is 0.05, and must be at least 0.1"),
        ({"image_registry": "registry.example.org"}, "write 'oras://registry.example.org/checks'"),
        ({"image_registry": "oras://me:secret@host/a"}, "is not the address of a registry"),
        ({"max_pending_time": "soon"}, "max_pending_time: 'soon' is not a duration: write '12h', or '1d6h'"),
    ],
)
def test_a_wrong_extra_is_refused_in_one_line_with_what_to_write(partition, extras, said):
    with pytest.raises(SiteError) as error:
        Site.of(partition(extras=extras))
    assert "\n" not in str(error.value) and said in str(error.value)
    assert str(error.value).startswith("site file, extras of cluster:compute: containercheck: ")


def test_extras_of_other_libraries_are_ignored(partition):
    """As those in public site files: of CSCS's Alps, and of Feel++'s benchmarks."""
    others = {"cn_memory": 500, "launcher_options": {"mpich": []}, "memory_per_node": 512}
    assert Site.of(partition(beside=others)).memory_per_node is None
    with pytest.raises(SiteError, match="containercheck is 'yes', and must be a dictionary"):
        Site.of(partition(beside={"containercheck": "yes"}))


def test_software_of_the_sites_own_is_a_value_for_each_check(partition):
    entry = {"executable": "gmx_mpi", "tolerance": 3, "binds": ["/apps", "/a:/b"], "input": "/topol.tpr", "image": None}
    own_checks = {"software": {"GROMACS": entry, "MyCode": {}}, "images": {"xyzzy": "a.sif"}}
    found = Site.of(partition(extras=own_checks))
    # Names that resemble none of ours are those of own checks, which this session may not load.
    assert found.images == {"xyzzy": "a.sif"}
    own = found.software_of("GROMACS")
    assert (own.executable, own.tolerance, own.trees, own.modules, own.image) == (
        "gmx_mpi",
        3,
        {"/apps": "/apps", "/b": "/a"},
        [],
        None,
    )
    assert found.software_of("MyCode") == found.software_of("HPL") == Software()
    assert found.input_of("GROMACS", "") == "/topol.tpr"
    assert found.input_of("GROMACS", "/mine.tpr") == "/mine.tpr"


def test_caches_are_the_sites_or_below_the_users_own(partition, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    found = Site.of(partition(extras={"caches": "$SCRATCH/ours"}))
    assert str(found.cache("images")) == "/scratch/me/ours/images"
    assert Site.of(partition()).cache("venvs") == tmp_path / "containercheck" / "venvs"


def test_nodes_without_a_partition_of_that_size_are_not_generated(monkeypatch):
    small = Site("a:small", False, None, 4, 0, max_nodes=1)
    big = Site("a:big", False, None, 48, 2, max_nodes=6, file_systems={"scratch": "/scratch"})
    monkeypatch.setattr(sites, "current", lambda: (small, big))
    assert sites.node_counts() == [1, 2, 4]
    assert sites.partitions_with(1) == ["a:small", "a:big"]
    assert sites.partitions_with(4) == ["a:big"]
    assert sites.partitions_with(8) == []
    assert sites.core_counts() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert sites.file_systems() == ["scratch"]
    assert sites.partitions_with_gpus() == ["a:big"]


def test_a_site_names_further_node_counts_and_numbers_of_ranks(monkeypatch):
    """A number of ranks above that of the cores is left out, and all of them are an axis's own value."""
    lenox = Site("a:lenox", False, None, 28, 0, max_nodes=10, node_counts=[3, 10, 12], core_counts=[6, 0, 28, 30])
    other = Site("a:other", False, None, 4, 0, max_nodes=4)
    monkeypatch.setattr(sites, "current", lambda: (lenox, other))
    # Divisors of 28 too.
    assert sites.core_counts() == [1, 2, 4, 6, 7, 8, 14, 16]
    assert sites.node_counts() == [1, 2, 3, 4, 8, 10]
    assert sites.partitions_with(3) == ["a:lenox"]


SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=8, gpus=0)
UNKNOWN = Site("cluster:compute", is_here=False, architecture=None, cores=None, gpus=0)


@pytest.mark.parametrize(
    ("ranks_per_node", "threads", "expected"),
    [
        (None, 1, (8, 1)),
        (None, 4, (2, 4)),
        (None, 3, (2, 3)),
        (None, 0, (1, 8)),
        (2, 0, (2, 4)),
    ],
)
def test_ranks_and_threads_make_use_of_the_cores(ranks_per_node, threads, expected):
    layout = Layout.on(SITE, 2, ranks_per_node, threads, 1)
    assert (layout.ranks_per_node, layout.threads, layout.ranks) == (*expected, 2 * expected[0])


@pytest.mark.parametrize(
    ("site", "facts", "said"),
    [
        (UNKNOWN, (1, None, 1, 1), "cores per node unknown: write 'processor' of cluster:compute into the site file"),
        (SITE, (1, 2, 5, 1), "needs 10 cores per node: cluster:compute has 8"),
        (SITE, (1, 1, 1, 2), "needs 2 ranks: 1 node(s) have 1"),
        (SITE, (2, None, 1, 1, 15), "its input has work for 15 cores: 2 node(s) have 16"),
    ],
)
def test_what_does_not_fit_is_a_reason_in_one_line(site, facts, said):
    with pytest.raises(LayoutError) as error:
        Layout.on(site, *facts)
    assert str(error.value) == said


@pytest.mark.parametrize("ranks", [1, 2, 7, 12, 48, 97])
def test_the_grid_has_all_ranks_and_no_fewer_rows_than_columns(ranks):
    rows, columns = Layout(1, ranks, 1).grid
    assert rows * columns == ranks
    assert rows >= columns >= 1
    assert not any(ranks % number == 0 for number in range(columns + 1, rows) if number**2 <= ranks)


@pytest.mark.parametrize(
    ("launcher", "binding", "words"),
    [
        ("srun", "none", "srun --cpus-per-task=1 --cpu-bind=none"),
        ("srun", None, "srun --cpus-per-task=1 --cpu-bind=cores"),
        ("srun", "launcher", "srun --cpus-per-task=1"),
        ("mpirun", "none", "mpirun -np 8 --bind-to none"),
        ("mpirun", None, "mpirun -np 8 --bind-to core"),
        ("mpirun", "launcher", "mpirun -np 8"),
        # ReFrame's built-in system.
        ("local", "launcher", "mpirun -np 8"),
    ],
)
def test_ranks_are_bound_as_the_site_wants_it(partition, launcher, binding, words):
    extras = {} if binding is None else {"binding": binding}
    found = partition(launcher=launcher, extras=extras, processor=PROCESSOR)
    job = Job.create(found.scheduler, found.launcher_type(), name="job")
    layout = Layout.on(Site.of(found), 1, None, 1, 1)
    assert launchers.partition_launcher(job, Site.of(found), layout).words == words


@pytest.mark.parametrize(
    ("launcher", "family", "options"),
    [
        ("mpirun", "openmpi", ["--map-by slot:PE=4", "--bind-to core"]),
        ("mpiexec", "mpich", ["--bind-to core:4"]),
        ("srunalloc", "mpich", ["--cpu-bind=cores"]),
        # Its options are not known.
        ("aprun", "mpich", []),
    ],
)
def test_a_rank_is_bound_to_as_many_cores_as_it_has_threads(launcher, family, options):
    assert Layout(1, 2, 4, "cores").bound_by(launcher, family) == options


@pytest.mark.parametrize(
    ("threads", "binding", "family", "options"),
    [
        (1, "launcher", "openmpi", ["--map-by ppr:2:node"]),
        (4, "none", "openmpi", ["--map-by ppr:2:node", "--bind-to none"]),
        (4, "cores", "openmpi", ["--map-by ppr:2:node:PE=4", "--bind-to core"]),
        (4, "cores", "mpich", ["-ppn 2", "--bind-to core:4"]),
    ],
)
def test_the_nodes_of_a_list_have_as_many_ranks_as_the_job_and_not_as_the_list(threads, binding, family, options):
    assert Layout(2, 2, threads, binding).bound_by("mpirun", family, by_list=True) == options


@pytest.mark.parametrize(
    ("ranks", "openmp", "ranks_per_node", "mix"),
    [
        (8, PLAIN["openmp"], None, (8, 1)),
        # D12.5 section 3.3.1.
        (8, ALL_CORES, None, (8, 6)),
        (0, ALL_CORES, None, (1, 48)),
        # -S ranks_per_node counts where the axis says none.
        (0, PLAIN["openmp"], 3, (3, 1)),
        (2, PLAIN["openmp"], 3, (2, 1)),
    ],
)
@pytest.mark.parametrize("hooks", [*itertools.permutations([RanksPerNode.choose_ranks, ThreadsPerRank.choose_threads])])
def test_the_axes_of_ranks_and_threads_fill_a_node(ranks, openmp, ranks_per_node, mix, hooks):
    check = SimpleNamespace(ranks=ranks, openmp=openmp, threads=1, ranks_per_node=ranks_per_node)
    for hook in hooks:
        hook(check)
    layout = Layout.on(replace(SITE, cores=48), 1, check.ranks_per_node, check.threads, 1)
    assert (layout.ranks_per_node, layout.threads) == mix


def extras_of_template():
    (system,) = runpy.run_path(str(TEMPLATE))["site_configuration"]["systems"]
    (partition,) = system["partitions"]
    return partition["extras"]["containercheck"]


def test_the_template_has_every_extra_with_its_purpose_and_loads():
    assert set(extras_of_template()) == {*extras.declared(Site)}
    lines = TEMPLATE.read_text().splitlines()
    for name in extras_of_template():
        # An entry of the software has keys of the same name, farther in.
        (place,) = [number for number, line in enumerate(lines) if line.startswith(f'{" " * 28}"{name}":')]
        assert lines[place - 1].strip().startswith("# "), name
    (entry,) = extras_of_template()["software"].values()
    assert set(entry) == {field.name for field in fields(Software)}
    found = Site.of(loaded(TEMPLATE, "mycluster"))
    assert (found.architecture, found.cores, found.gpus, found.max_nodes) == ("x86_64", 48, 4, 16)


def test_a_tolerance_for_a_metric_that_a_check_does_not_have_is_an_error(partition):
    site = Site.of(partition(extras={"tolerances": {"StartUp": {"strat": 1.0}}}))
    assert site.tolerances_of("GROMACS", ["rate"]) == {}
    with pytest.raises(ReframeError, match=r"tolerances: StartUp has no metric strat; it has end, start"):
        site.tolerances_of("StartUp", ["start", "end"])


LOCAL = Site("here:only", is_here=True, architecture="x86_64", cores=128, gpus=0)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/", {}, 128),
        ("0::/user/job", {"user/job/cpu.max": "max 100000"}, 128),
        ("0::/user/job", {"user/job/cpu.max": "max 100000", "user/cpu.max": "250000 100000"}, 2),
        ("0::/user/job", {"cpu.max": "50000 100000"}, 1),
        ("7:memory:/job", {"memory/job/cpu.max": "100000 100000"}, 128),
    ],
)
def test_a_quota_of_the_cgroup_or_of_one_above_counts(group, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(128)))
    files = {"proc/self/cgroup": group, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert sites.usable_processors(tmp_path) == expected


def test_a_job_that_needs_more_than_there_are_is_refused_on_this_machine_only():
    with pytest.raises(ReframeError, match=r" has 2 core\(s\) for this session, the configuration says 128: correct "):
        Layout(1, 128, 1).require_here(LOCAL, 2)
    Layout(1, 1, 2).require_here(LOCAL, 2)
    Layout(1, 128, 1).require_here(Site("a:b", is_here=False, architecture="x86_64", cores=128, gpus=0), 2)
