"""Sites and layouts: what is known of a partition, and how ranks lie on it."""

from __future__ import annotations

import itertools
import os
import platform
import runpy
from dataclasses import fields, replace

import pytest
from conftest import REPOSITORY
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


@pytest.mark.parametrize(
    ("arch", "architecture"),
    [
        ("skylake_avx512", "x86_64"),
        ("zen2", "x86_64"),
        ("power9le", "ppc64le"),
        ("thunderx2", "aarch64"),
        # What a site says itself, where archspec does not know better.
        ("aarch64", "aarch64"),
        ("riscv64", "riscv64"),
        ("pdp11", "pdp11"),
    ],
)
def test_the_architecture_is_the_partitions(partition, arch, architecture):
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
    assert (found.partition, found.cores, found.gpus) == ("cluster:compute", 8, 4)


def test_extras_that_are_given_are_taken_and_the_others_have_their_defaults(partition):
    found = Site.of(partition(extras={"max_nodes": 8, "memory_per_node": 1 << 30, "image_mirror": None}))
    assert (found.max_nodes, found.memory) == (8, 1 << 30)
    assert found.image_mirror is found.images is None
    assert (found.binding, found.exclusive, found.hardware_threads, found.time_limit) == ("cores", True, 1, None)
    assert Site.of(partition()).max_nodes == 1


def test_a_partition_has_its_longest_job_and_its_hardware_threads(partition):
    found = Site.of(partition(time_limit="1h30m", processor=PROCESSOR, extras={"exclusive": False}))
    assert (found.time_limit, found.hardware_threads, found.exclusive) == (5400, 2, False)


def test_a_site_gives_its_tolerances_as_whole_numbers_or_not(partition):
    given = {"StartUp": {"start": 1, "seconds": 0.5}, "GROMACS": {"rate": 3.0}}
    assert Site.of(partition(extras={"tolerances": given})).tolerances == given
    assert Site.of(partition()).tolerances is None


def refusal(partition, beside=None, **extras):
    with pytest.raises(SiteError) as error:
        Site.of(partition(extras=extras, beside=beside))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("site file, extras of cluster:compute: ")
    return str(error.value)


def test_an_unknown_extra_is_refused_with_the_nearest_name(partition):
    assert "unknown 'max_node': did you mean 'max_nodes'?" in refusal(partition, max_node=4)
    assert "unknown 'gpu_queue': there are binding, " in refusal(partition, gpu_queue="x")


def test_images_of_recipes_are_accepted_and_of_own_checks_too(partition):
    assert Site.of(partition({"images": {"hpcc": "a.sif", "mpi": "b.sif"}})).images == {"hpcc": "a.sif", "mpi": "b.sif"}
    assert Site.of(partition({"images": {"xyzzy": "a.sif"}, "own_checks": ["MyCode"]})).images == {"xyzzy": "a.sif"}


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"max_nodes": "8"}, "max_nodes is '8', and must be of the type int"),
        ({"max_nodes": True}, "max_nodes is True, and must be of the type int"),
        ({"images": ["hpcc.sif"]}, "images is ['hpcc.sif'], and must be of the type Dict[str,str]"),
        ({"mpich_launcher_options": "--mpi=pmi2"}, "must be of the type List[str]"),
        ({"own_checks": "MyCode"}, "own_checks is 'MyCode', and must be of the type List[str]"),
        ({"tolerances": {"StartUp": 1.0}}, "tolerances is {'StartUp': 1.0}, and must be of the type Dict["),
        ({"tolerances": {"StartUp": {"start": "1 s"}}}, "and must be of the type Dict["),
        (
            {"software": {"GROMACS": "gmx_mpi"}},
            "software is {'GROMACS': 'gmx_mpi'}, and must be of the type Dict[str,dict]",
        ),
        ({"software": {"GROMACS": {"module": []}}}, "software: GROMACS: unknown 'module': did you mean 'modules'?"),
        (
            {"software": {"GROMACS": {"modules": "a"}}},
            "software: GROMACS: modules is 'a', and must be of the type List[str]",
        ),
        ({"software": {"GROMACS": {"tolerance": True}}}, "software: GROMACS: tolerance is True, and must be"),
        (
            {"software": {"GROMCAS": {}}},
            "software: unknown 'GROMCAS': did you mean 'GROMACS'? (A check of your own that not every session looks",
        ),
        ({"inputs": {"Gromacs": "/a"}}, "inputs: unknown 'Gromacs': did you mean 'GROMACS'?"),
        ({"images": {"HPCC": "a.sif"}}, "images: unknown 'HPCC': did you mean 'hpcc'? Images are named by recipe."),
        ({"images": {"QuantumEspresso": "a"}}, "unknown 'QuantumEspresso': did you mean 'espresso'?"),
        ({"images": {"xyzzy": "a"}}, "images: unknown 'xyzzy': there are btmz, "),
        ({"images": {"hpccc": "a"}, "own_checks": ["MyCode"]}, "images: unknown 'hpccc': did you mean 'hpcc'?"),
        ({"tolerances": {"StatUp": {}}}, "tolerances: unknown 'StatUp': did you mean 'StartUp'?"),
        (
            {"software": {"GROMACS": {"input": "/a"}}, "inputs": {"GROMACS": "/a"}},
            "the input of GROMACS is named in inputs and in software: leave one out",
        ),
        ({"image_launcher": "sruun"}, "image_launcher: no such launcher: 'sruun'"),
        ({"release": "etch"}, "release is 'etch', and must be one of bookworm, trixie"),
        ({"binding": "socket"}, "binding is 'socket', and must be one of cores, none"),
        (
            {"software": {"PACE3D": {"patterns": {"LUPS": r"^rate \S+"}}}},
            "software: PACE3D: patterns: LUPS has 0 groups, and needs one, for the value",
        ),
        (
            {"software": {"PACE3D": {"patterns": {"LUPS": "^rate ("}}}},
            "software: PACE3D: patterns: LUPS is not a regular expression: missing ), unterminated subpattern",
        ),
        (
            {"software": {"PACE3D": {"options": "case"}}},
            "software: PACE3D: options is 'case', and must be of the type List[str]",
        ),
    ],
)
def test_an_extra_of_the_wrong_type_or_value_is_refused(partition, extras, said):
    assert said in refusal(partition, **extras)


def test_extras_of_other_libraries_are_ignored(partition):
    """As those in public site files: of CSCS's Alps, and of Feel++'s benchmarks."""
    others = {"cn_memory": 500, "launcher_options": {"mpich": []}, "memory_per_node": 512}
    assert Site.of(partition(beside=others)).memory_per_node is None


@pytest.mark.parametrize("value", ["yes", ["max_nodes"], 5])
def test_extras_that_are_not_a_dictionary_are_refused(partition, value):
    with pytest.raises(SiteError, match="containercheck is .*, and must be a dictionary"):
        Site.of(partition(beside={"containercheck": value}))


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        (
            {"memory_per_node": 512},
            "memory_per_node is 512 bytes, which is not plausible: write 96 << 30 for 96 GiB",
        ),
        ({"memory_per_node": 96 << 50}, f"memory_per_node is {96 << 50} bytes, which is not plausible"),
        ({"max_nodes": 0}, "max_nodes is 0 nodes, which is not plausible: write 16 for jobs on up to 16 nodes"),
        (
            {"software": {"GROMACS": {"tolerance": 0.05}}},
            "software: GROMACS: tolerance is 0.05 percent, which is not plausible: write 5.0 for 5 %",
        ),
        ({"max_pending_time": "soon"}, "max_pending_time: 'soon' is not a duration: write '12h', or '1d6h'"),
    ],
)
def test_a_size_that_cannot_be_meant_is_refused_with_its_unit(partition, extras, said):
    assert said in refusal(partition, **extras)


def test_software_of_the_sites_own_is_a_value_for_each_check(partition):
    entry = {"executable": "gmx_mpi", "tolerance": 3, "binds": ["/apps", "/a:/b"], "input": "/topol.tpr", "image": None}
    found = Site.of(partition(extras={"software": {"GROMACS": entry, "MyCode": {}}, "own_checks": ["MyCode"]}))
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
    found = Site.of(partition(extras={"image_cache": "$SCRATCH/images"}))
    assert str(found.cache("image_cache")) == "/scratch/me/images"
    assert found.cache("venv_cache") == tmp_path / "containercheck" / "venvs"


def test_nodes_without_a_partition_of_that_size_are_not_generated(monkeypatch):
    small = Site("a:small", False, None, 4, 0, max_nodes=1)
    big = Site("a:big", False, None, 48, 0, max_nodes=6, file_systems={"scratch": "/scratch"})
    monkeypatch.setattr(sites, "current", lambda: (small, big))
    assert sites.node_counts() == [1, 2, 4]
    assert sites.partitions_with(1) == ["a:small", "a:big"]
    assert sites.partitions_with(4) == ["a:big"]
    assert sites.partitions_with(8) == []
    assert sites.core_counts() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert sites.file_systems() == ["scratch"]


def test_a_site_names_further_node_counts_and_a_nodes_cores_their_divisors(monkeypatch):
    lenox = Site("a:lenox", False, None, 28, 0, max_nodes=10, node_counts=[3, 10, 12])
    other = Site("a:other", False, None, 4, 0, max_nodes=4)
    monkeypatch.setattr(sites, "current", lambda: (lenox, other))
    assert sites.core_counts() == [1, 2, 4, 7, 8, 14, 16]
    assert sites.node_counts() == [1, 2, 3, 4, 8, 10]
    assert sites.partitions_with(3) == ["a:lenox"]


def test_a_site_names_further_numbers_of_ranks_on_a_node(monkeypatch):
    """What is no number of some of its cores is left out: all of them are an axis's own value."""
    own = Site("a:chpce", False, None, 16, 0, core_counts=[6, 12, 14, 0, 16, 20])
    monkeypatch.setattr(sites, "current", lambda: (own, Site("a:other", False, None, 16, 0)))
    assert sites.core_counts() == [1, 2, 4, 6, 8, 12, 14]


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
        (1, 1, (1, 1)),
        (8, 1, (8, 1)),
    ],
)
def test_ranks_and_threads_make_use_of_the_cores(ranks_per_node, threads, expected):
    layout = Layout.on(SITE, 2, ranks_per_node, threads, 1)
    assert (layout.ranks_per_node, layout.threads, layout.ranks) == (*expected, 2 * expected[0])


def test_a_layout_that_asks_for_no_cores_needs_to_know_none():
    assert Layout.on(UNKNOWN, 2, 4, 2, 1) == Layout(2, 4, 2)


@pytest.mark.parametrize(
    ("site", "facts", "said"),
    [
        (UNKNOWN, (1, None, 1, 1), "cores per node unknown: write 'processor' of cluster:compute into the site file"),
        (UNKNOWN, (1, 2, 0, 1), "cores per node unknown: write 'processor' of cluster:compute into the site file"),
        (SITE, (1, 9, 1, 1), "needs 9 cores per node: cluster:compute has 8"),
        (SITE, (1, 2, 5, 1), "needs 10 cores per node: cluster:compute has 8"),
        (SITE, (1, None, 16, 1), "needs 16 cores per node: cluster:compute has 8"),
        (SITE, (1, 1, 1, 2), "needs 2 ranks: 1 node(s) have 1"),
        (SITE, (2, None, 1, 1, 15), "its input has work for 15 cores: 2 node(s) have 16"),
        (SITE, (2, 1, 0, 1, 15), "its input has work for 15 cores: 2 node(s) have 16"),
    ],
)
def test_what_does_not_fit_is_a_reason_in_one_line(site, facts, said):
    with pytest.raises(LayoutError) as error:
        Layout.on(site, *facts)
    assert str(error.value) == said


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 12, 48, 96, 97, 100])
def test_the_grid_has_all_ranks_and_no_fewer_rows_than_columns(ranks):
    rows, columns = Layout(1, ranks, 1).grid
    assert rows * columns == ranks
    assert rows >= columns >= 1
    assert not any(ranks % number == 0 for number in range(columns + 1, rows) if number**2 <= ranks)


@pytest.mark.parametrize(
    ("launcher", "binding", "words"),
    [
        ("srun", "cores", "srun --cpus-per-task=1 --cpu-bind=cores"),
        ("srun", "none", "srun --cpus-per-task=1 --cpu-bind=none"),
        ("srun", None, "srun --cpus-per-task=1 --cpu-bind=cores"),
        ("srun", "launcher", "srun --cpus-per-task=1"),
        ("mpirun", "cores", "mpirun -np 8 --bind-to core"),
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
def test_a_rank_with_threads_is_bound_to_as_many_cores(launcher, family, options):
    assert Layout(1, 2, threads=4, binding="cores").bound_by(launcher, family) == options


@pytest.mark.parametrize(
    ("launcher", "binding", "threads", "family", "options"),
    [
        ("srun", "cores", 1, "openmpi", ["--cpu-bind=threads"]),
        ("srun", "none", 1, "openmpi", ["--cpu-bind=none"]),
        ("srun", "launcher", 1, "openmpi", []),
        ("mpirun", "cores", 1, "openmpi", ["--use-hwthread-cpus", "--bind-to hwthread"]),
        ("mpirun", "cores", 2, "openmpi", ["--use-hwthread-cpus", "--map-by slot:PE=2", "--bind-to hwthread"]),
        # Without it, Open MPI has too few slots, however ranks are bound.
        ("mpirun", "launcher", 1, "openmpi", ["--use-hwthread-cpus"]),
        ("mpirun", "none", 1, "openmpi", ["--use-hwthread-cpus", "--bind-to none"]),
        ("mpiexec", "cores", 1, "mpich", ["--bind-to hwthread"]),
        ("mpiexec", "cores", 4, "mpich", ["--bind-to hwthread:4"]),
        ("mpiexec", "launcher", 1, "mpich", []),
    ],
)
def test_hardware_threads_are_bound_to_by_words_of_their_own(launcher, binding, threads, family, options):
    layout = Layout(1, 2, threads, binding, hardware_threads=True)
    assert layout.bound_by(launcher, family) == options


@pytest.mark.parametrize(
    ("ranks_per_node", "threads", "expected"), [(None, 1, (16, 1)), (None, 2, (8, 2)), (4, 0, (4, 4)), (16, 1, (16, 1))]
)
def test_ranks_and_threads_fill_the_hardware_threads_where_they_are_asked_for(ranks_per_node, threads, expected):
    site = replace(SITE, hardware_threads=2)
    layout = Layout.on(site, 1, ranks_per_node, threads, 1, hardware_threads=True)
    assert (layout.ranks_per_node, layout.threads, layout.cores) == (*expected, 16)
    with pytest.raises(LayoutError, match="^needs 17 hardware threads per node: cluster:compute has 16$"):
        Layout.on(site, 1, 17, 1, 1, hardware_threads=True)


def test_a_partition_without_hardware_threads_is_a_skip_that_says_what_to_write():
    with pytest.raises(LayoutError, match="^cluster:compute has one hardware thread a core: if there are more, write"):
        Layout.on(SITE, 1, None, 1, 1, hardware_threads=True)


def extras_of_template():
    (system,) = runpy.run_path(str(TEMPLATE))["site_configuration"]["systems"]
    (partition,) = system["partitions"]
    return partition["extras"]["containercheck"]


def test_the_template_has_every_extra_that_is_read_and_none_else():
    assert set(extras_of_template()) == {*extras.declared(Site)}


def test_the_template_says_of_every_extra_what_it_is_for():
    lines = TEMPLATE.read_text().splitlines()
    for name in extras_of_template():
        # An entry of the software has keys of the same name, farther in.
        (place,) = [number for number, line in enumerate(lines) if line.startswith(f'{" " * 28}"{name}":')]
        assert lines[place - 1].strip().startswith("# "), name


def test_the_template_has_every_key_of_the_sites_own_software():
    (entry,) = extras_of_template()["software"].values()
    assert set(entry) == {field.name for field in fields(Software)}


def test_the_template_is_a_site_file_that_loads():
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


def test_the_machine_itself_tells():
    assert 1 <= sites.usable_processors() <= len(os.sched_getaffinity(0))


def test_a_job_that_needs_more_than_there_are_is_refused_on_this_machine_only():
    with pytest.raises(ReframeError, match=r" has 2 core\(s\) for this session, the configuration says 128: correct "):
        Layout(1, 128, 1).require_here(LOCAL, 2)
    Layout(1, 1, 2).require_here(LOCAL, 2)
    Layout(1, 128, 1).require_here(Site("a:b", is_here=False, architecture="x86_64", cores=128, gpus=0), 2)
