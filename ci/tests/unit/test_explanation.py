"""Explanations: rules find what differs and can explain a metric; experiments prove it, refute it, or say nothing."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import facts_of
from containercheck import Metric
from containercheck.job.contract import FABRICS, MEASURED
from containercheck.job.explain import causes, explanation, rules, use_rules
from containercheck.job.explain.causes import AND, BIND, CPUS, GPUS, LIMIT, PREFIX, SET, UNPACK, UNSET, Change
from containercheck.job.explain.observations import Observation, Use, pairs_of
from containercheck.job.outputs.facts import Facts
from hypothesis import given
from hypothesis import strategies as st

USED = (Use(), Use())
SPEED = Metric("speed", r"^speed (\S+)", "x", measures=("computing",))
LATENCY = Metric("latency", r"^latency (\S+)", "us", better="lower", measures=("network",))
BETWEEN = replace(LATENCY, measures=("messages",))
TIME = Metric("time", r"^time (\S+)", "s", better="lower")
BARE = Observation(
    environment={"OMP_NUM_THREADS": "1", "UCX_NET_DEVICES": "mlx5_0:1"},
    limits={"Max locked memory": "unlimited", "Max open files": "1024"},
    status={
        "Cpus_allowed_list": "0-3",
        "Mems_allowed_list": "0-1",
        "Seccomp": "0",
        "Speculation_Store_Bypass": "thread vulnerable",
        "THP_enabled": "1",
    },
    space={"/dev/shm": [11 << 30, 10 << 30]},
    mounts={"/": ["ext4", "/dev/vda", "rw"]},
    libc="glibc 2.36",
    priority=[0, 0],
    devices=["/dev/infiniband/uverbs0"],
)
CONTAINER = BARE._replace(environment={**BARE.environment, "LD_LIBRARY_PATH": "/.singularity.d/libs", "LC_ALL": "C"})


def with_variables(**variables):
    return CONTAINER._replace(environment={**CONTAINER.environment, **variables})


def sentences(container, *failed, uses=USED):
    return [cause.sentence for cause in explanation.causes(BARE, container, uses, failed)]


def test_what_always_differs_explains_nothing():
    assert sentences(CONTAINER, SPEED, LATENCY, TIME) == []
    assert explanation.causes(None, CONTAINER, USED, [SPEED]) == []


def test_what_cannot_explain_the_metric_is_not_named():
    found = with_variables(OPENBLAS_CORETYPE="Prescott", UCX_TLS="tcp")
    assert [line.split("=")[0] for line in sentences(found, SPEED)] == ["OPENBLAS_CORETYPE"]
    assert [line.split("=")[0] for line in sentences(found, LATENCY)] == ["UCX_TLS"]
    assert len(sentences(found, TIME)) == 2
    assert sentences(found) == []


def test_who_sets_a_variable_is_named():
    found = with_variables(OPENBLAS_CORETYPE="Prescott")
    start = "OPENBLAS_CORETYPE=Prescott is set"
    assert sentences(found, SPEED)[0].startswith(f"{start} in the container, and not on the host")
    by_image = found._replace(image_variables=["OPENBLAS_CORETYPE"])
    assert sentences(by_image, SPEED)[0].startswith(f"{start} by the image")
    by_site = by_image._replace(set_by={"OPENBLAS_CORETYPE": "APPTAINERENV_OPENBLAS_CORETYPE"})
    assert sentences(by_site, SPEED)[0].startswith(f"{start} by APPTAINERENV_OPENBLAS_CORETYPE")


def test_a_variable_is_removed_or_set_as_on_the_host():
    def experiment(**variables):
        return explanation.causes(BARE, with_variables(**variables), USED, [TIME])[0].change

    assert experiment(OPENBLAS_CORETYPE="Prescott") == Change(UNSET, "OPENBLAS_CORETYPE")
    assert experiment(OMP_NUM_THREADS="64") == Change(SET, "OMP_NUM_THREADS=1")
    without = dict(CONTAINER.environment)
    del without["UCX_NET_DEVICES"]
    (cause,) = explanation.causes(BARE, CONTAINER._replace(environment=without), USED, [TIME])
    assert cause.change == Change(SET, "UCX_NET_DEVICES=mlx5_0:1")


def test_variables_of_a_rank_explain_nothing():
    assert sentences(with_variables(OMPI_MCA_orte_ess_vpid="1", OMPI_COMM_WORLD_RANK="1", PMIX_RANK="1"), TIME) == []


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({"space": {"/dev/shm": [8 << 20, 8 << 20]}}, "/dev/shm holds 8 MiB in the container, 11 GiB on the host"),
        ({"space": {"/dev/shm": [11 << 30, 1 << 20]}}, "/dev/shm has 1 MiB free in the container"),
        ({"status": {"Cpus_allowed_list": "0"}}, "processors 0 are allowed in the container, 0-3 on the host"),
        ({"limits": {"Max locked memory": "65536"}}, "the limit of locked memory is 65536 in the container"),
        ({"libc": "musl"}, "libc is musl in the container"),
        (
            {"status": {"Cpus_allowed_list": "0-3", "Speculation_Store_Bypass": "thread force mitigated"}},
            "seccomp switches the mitigation",
        ),
        ({"status": {"Mems_allowed_list": "1"}}, "the container may use the memory of 1 of the node's 2 memory nodes"),
        ({"status": {"THP_enabled": "0"}}, "the container's processes get no transparent huge pages"),
        ({"priority": [19, 0]}, "the container's processes run at nice 19, those of the host at 0"),
        ({"priority": [0, 5]}, "the kernel treats the container's processes as idle work"),
        ({"libc": "glibc 2.17"}, "glibc is 2.17 in the container, 2.36 on the host"),
    ],
)
def test_a_difference_is_named(facts, start):
    (sentence,) = sentences(CONTAINER._replace(**facts), TIME)
    assert sentence.startswith(start)


def test_what_slows_files_only_explains_only_those():
    files = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
    filtered = CONTAINER._replace(status={"Seccomp": "2"})
    assert sentences(filtered, TIME, SPEED) == []
    assert sentences(filtered, files) == [
        "a filter (seccomp) looks at each system call in the container, and not on the host"
    ]
    mounts = {"/": ["ext4", "/dev/vda", "rw", "rw"], "/scratch": ["tmpfs", "none", "rw", "rw,sync"]}
    synchronous = CONTAINER._replace(mounts=mounts, directories={"/scratch": "usable"})
    assert sentences(synchronous, files)[0].startswith("/scratch is mounted with sync in the container")
    assert sentences(synchronous._replace(directories={"/home": "usable", "/scratch": "missing"}), files) == []


def test_an_image_read_through_fuse_explains_files_and_start_only():
    mounted = CONTAINER._replace(
        mounts={"/": ["fuse.squashfuse_ll", "squashfuse_ll", "ro"], "/tmp": ["ext4", "/dev/vda", "rw"]}
    )
    assert sentences(mounted, SPEED, TIME) == []
    files = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
    (cause,) = explanation.causes(BARE, mounted, USED, [files])
    assert cause.change == Change(UNPACK)


def test_what_the_runs_used_is_named():
    bare = Use(
        10.0,
        19.0,
        1.0,
        0.0,
        1,
        frozenset(["/usr/lib/openblas-serial/libopenblas-r0.so"]),
        frozenset(["fab0"]),
        watched=10.0,
    )

    def found(**facts):
        return [cause.sentence for cause in explanation.causes(BARE, CONTAINER, (bare, bare._replace(**facts)), [TIME])]

    assert found() == []
    assert found(throttled=[90, 100, 0.5])[0].startswith("the container's cgroup limits it to 0.5 processors")
    assert found(throttled=[1, 100, 0.5]) == []
    assert found(threads=64) == ["a process has 64 threads in the container, 1 on the host"]
    assert found(libraries=frozenset(["/usr/lib/blas/libblas.so.3"]))[0].startswith("linear algebra is the reference")
    assert found(interfaces=frozenset(["eth0", "lo"])) == [
        "MPI talks over eth0 in the container, over fab0 on the host"
    ]
    assert found(helpers=6.0, seconds=14.0)[0].startswith("the runtime's helpers take 6.0 s")
    # Helpers that hold nothing up, or far less than is missing, are no cause.
    assert found(helpers=6.0, seconds=11.0) == found(helpers=2.0, seconds=60.0) == []
    assert found(user_namespaces=1) == []
    assert found(user_namespaces=2)[0].startswith("the ranks of a node are in 2 user namespaces in the container")
    assert found(memory_limit=2 << 30) == []
    tight = found(memory_limit=2 << 30, memory=1.5 * 2**30)
    assert tight == ["the container's cgroup limits its memory to 2 GiB, of which a run's processes held 1.5 GiB"]
    assert found(faults=9000.0) == [] and found(faults=90000.0)[0].startswith("processes take 9000 page faults")
    assert found(major_faults=9000.0) == []
    assert found(switched_out=9000.0)[0].startswith("processes are switched out 900 times a second")
    # A run that ended before bare's was looked at, or that was seen at its start only, has no rates.
    assert found(switched_out=9000.0, watched=0.5) == []
    bare = bare._replace(watched=0.0)
    assert found(switched_out=9000.0, watched=10.0) == []


@pytest.mark.parametrize(
    ("on_host", "in_container", "sentence"),
    [
        ("/usr/lib/libjemalloc.so.2", "", "memory is allocated by jemalloc on the host, and not in the container"),
        ("/usr/lib/libucp.so.0", "", "MPI has ucp for the fabric on the host, and not in the container"),
        ("/usr/lib/libucp.so.0", "/opt/libucp.so.0", None),
        ("", "/usr/lib/libucp.so.0", None),
        ("", "/usr/lib/libasan.so.8", "asan watches the program in the container, and not on the host"),
        ("/usr/lib/libfftw3.so.3", "/usr/lib/libfftw3f.so.3", None),
        ("/usr/lib/libcudart.so.12", "", "GPUs are used, by cudart on the host, and not in the container"),
        (
            "/usr/lib/libmpi.so.40",
            "/usr/lib/libmpi.so.12",
            "MPI is MPICH's family in the container, Open MPI on the host",
        ),
        ("/usr/lib/libmpi.so.40", "/usr/lib/libmpi.so.40", None),
        (
            "/usr/lib/libgomp.so.1",
            "/usr/lib/libiomp5.so",
            "OpenMP is LLVM's or Intel's in the container, GNU's on the host",
        ),
    ],
)
def test_a_library_that_only_one_side_has_is_named(on_host, in_container, sentence):
    bare, container = (
        Use(10.0, 19.0, libraries=frozenset([path, "/usr/lib/libc.so.6"])) for path in (on_host, in_container)
    )
    assert sentences(CONTAINER, TIME, uses=(bare, container)) == ([sentence] if sentence else [])


#: Libraries of Open MPI and of MPICH.
MPIS = ("libmpi.so.40", "libmpich.so.12")


def test_settings_of_another_mpi_than_the_containers_explain_nothing():
    """Seen with two images of Quantum ESPRESSO: Open MPI's settings "did not reach" MPICH, which was twice as slow."""
    bare = BARE._replace(settings={"/etc/openmpi/openmpi-mca-params.conf btl": "^uct"})
    # What their launchers set by themselves is no cause either.
    own = {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "node1", "PMIX_MCA_mca_base_component_show_load_errors": "1"}
    container = with_variables(OMPI_MCA_btl="self", **own)
    open_mpi, mpich = (USED[1]._replace(libraries=frozenset([f"/usr/lib/{file}"])) for file in MPIS)
    for inside, expected in ((open_mpi, ["OMPI_MCA_btl", "btl"]), (mpich, ["MPI"]), (USED[1], ["OMPI_MCA_btl", "btl"])):
        found = explanation.causes(bare, container, (open_mpi, inside), [LATENCY])
        assert sorted(cause.about for cause in found) == sorted(expected)


def test_a_setting_explains_what_it_is_about():
    path = "/etc/openmpi/openmpi-mca-params.conf"
    names = ("hwloc_base_binding_policy", "oob_tcp_if_include", "btl_tcp_if_include")
    bare = BARE._replace(settings={f"{path} {name}": "none" for name in names})
    start = Metric("start", r"^start (\S+)", "s", better="lower", measures=("start",))
    found = [
        [cause.about for cause in explanation.causes(bare, CONTAINER, USED, [metric])]
        for metric in (SPEED, start, LATENCY)
    ]
    assert found == [[name] for name in names]
    # Of a run that hangs, those of messages only.
    assert [cause.about for cause in explanation.causes_of_end(bare, CONTAINER, USED)] == [*names[-1:]]
    # A port is a setting like another one; that of a rank's server is not.
    ports = with_variables(OMPI_MCA_btl_tcp_port_min_v4="20000", PMIX_MCA_ptl_tcp_server_PORT="1")
    assert [cause.about for cause in explanation.causes_of_end(BARE, ports, USED)] == ["OMPI_MCA_btl_tcp_port_min_v4"]


def test_a_setting_of_another_mpi_than_both_have_explains_nothing():
    container = with_variables(OMPI_MCA_btl="tcp", I_MPI_FABRICS="shm")._replace(
        settings={"/etc/openmpi/x.conf pml": "ucx"}
    )
    uses = [
        Use(10.0, 19.0, libraries=frozenset([f"/usr/lib/{name}"])) for name in ("libmpich.so.12.2.2", "libmpi.so.12")
    ]
    assert [cause.about for cause in explanation.causes(BARE, container, tuple(uses), [TIME])] == [
        "I_MPI_FABRICS",
        "MPI",
    ]
    assert len(explanation.causes(BARE, container, USED, [TIME])) == 3
    of_rank = with_variables(I_MPI_HYDRA_UUID="3e040000", I_MPI_PIN_INFO="1")
    assert sentences(of_rank, TIME) == []
    assert sentences(CONTAINER, TIME, uses=tuple(uses)) == [
        "MPI is libmpi.so.12 in the container, libmpich.so.12 on the host"
    ]


def test_without_what_the_runs_loaded_no_library_is_missing():
    bare = Use(10.0, 19.0, libraries=frozenset(["/usr/lib/libucp.so.0"]), shared_memory=frozenset(["/dev/shm/seg"]))
    assert sentences(CONTAINER, TIME, uses=(bare, Use(10.0, 19.0))) == []
    some = Use(10.0, 19.0, libraries=frozenset(["/usr/lib/libucp.so.0"]))
    assert sentences(CONTAINER, LATENCY, TIME, uses=(bare, some)) == [
        "ranks share /dev/shm/seg on the host, and no memory in the container"
    ]


def test_pages_that_are_read_from_files_explain_files_and_start_only():
    files = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
    bare = Use(10.0, 19.0, watched=10.0)
    uses = bare, bare._replace(major_faults=9000.0)
    assert sentences(CONTAINER, files, uses=uses)[0].startswith("900 pages a second are read from files")


def test_where_there_is_no_fabric_no_library_for_it_is_missing():
    uses = tuple(Use(10.0, 19.0, libraries=frozenset([f"/usr/lib/{name}"])) for name in ("libpsm2.so.2", "libc.so.6"))
    without = BARE._replace(devices=[]), CONTAINER._replace(devices=[])
    assert len(explanation.causes(BARE, CONTAINER, uses, [TIME])) == 1
    assert explanation.causes(*without, uses, [TIME]) == []
    assert explanation.causes(None, None, uses, [TIME]) == []


def test_messages_slow_no_application_of_one_rank_unless_the_metric_says_so():
    container = with_variables(OMPI_MCA_btl="self,tcp", OMP_NUM_THREADS="64")
    abouts = [cause.about for cause in explanation.causes(BARE, container, USED, [TIME], ranks=1)]
    assert abouts == ["OMP_NUM_THREADS"]
    assert len(explanation.causes(BARE, container, USED, [TIME], ranks=2)) == 2
    assert len(explanation.causes(BARE, with_variables(UCX_TLS="tcp"), USED, [LATENCY], ranks=1)) == 1


def test_what_can_end_a_run_is_named_and_not_what_only_slows_it():
    container = with_variables(OMPI_MCA_btl="self,tcp", OPENBLAS_CORETYPE="Prescott", MALLOC_ARENA_MAX="1")
    container = container._replace(
        limits={**BARE.limits, "Max processes": "10"}, space={"/dev/shm": [64 << 20, 1 << 20]}
    )
    container = container._replace(mounts={"/": ["fuse.squashfuse", "squashfuse", "ro"]})
    bare = BARE._replace(limits={**BARE.limits, "Max processes": "100"})

    def named(ranks):
        return [cause.about for cause in explanation.causes_of_end(bare, container, USED, ranks)]

    assert named(2) == ["OMPI_MCA_btl", "/dev/shm", "Max processes"]
    # One rank talks to nobody.
    assert named(1) == ["/dev/shm", "Max processes"]
    assert explanation.causes_of_end(BARE, CONTAINER, USED) == explanation.causes_of_end(None, None, USED) == []


def test_ranks_in_user_namespaces_of_their_own_are_told_not_to_copy_directly():
    """HPCC's PTRANS hung in rootless containers with Open MPI 4.1.4, and ended well with the first setting."""
    bare, container = (Use(10.0, libraries=frozenset(["/usr/lib/libmpi.so.40"]), user_namespaces=n) for n in (0, 2))
    cause = explanation.causes_of_end(BARE, BARE, (bare, container))[0]
    assert cause.change == Change(SET, AND.join(use_rules.NO_DIRECT_COPIES)), cause
    # The namespaces stay: what counts is that the settings reached the ranks.
    stored = explanation.stored([cause])[0]
    remedied = BARE._replace(environment=dict(setting.split("=", 1) for setting in use_rules.NO_DIRECT_COPIES))
    assert explanation.took_effect(stored, BARE, remedied, (bare, container))
    assert not explanation.took_effect(stored, BARE, BARE, (bare, container))
    assert "or tell Open MPI not to try (OMPI_MCA_btl_vader_single_copy_mechanism=none" in cause.remedy
    # Others have no such settings.
    container = container._replace(libraries=frozenset(["/usr/lib/libmpich.so.12"]))
    found = explanation.causes_of_end(BARE, BARE, (bare, container))
    assert [cause.change for cause in found if cause.rule == "namespaces"] == [None]


def test_the_first_run_of_a_side_does_not_count_where_there_are_others():
    def run(faults):
        used = {name: 0 for name in Use._fields}
        used.update(throttled=[], libraries=[], interfaces=[], shared_memory=[], devices=[])
        return {"status": 0, "seconds": 1.0, "used": {**used, "major_faults": faults}}

    assert Use.of([run(900)]).major_faults == 900
    assert Use.of([run(900), run(3), run(5)]).major_faults == 4
    # Of what hung it is known what it waited with; what died may not have come to it.
    hung, died = ({**run(7), "status": -15, "timed_out": hangs} for hangs in (True, False))
    assert Use.of([run(900), hung]).major_faults == 900
    assert Use.of([hung, died]).major_faults == 7
    assert Use.of([died]) == Use()


def test_memory_that_is_tight_explains_more_than_files():
    limited = Use(10.0, 19.0, memory_limit=1 << 30)
    assert sentences(CONTAINER, SPEED, uses=(Use(10.0, 19.0), limited)) == []
    memory = Metric("memory", r"^memory (\S+)", "GB/s", measures=("memory",))
    tight = limited._replace(memory=0.9 * 2**30)
    assert len(sentences(CONTAINER, memory, uses=(Use(10.0, 19.0), tight))) == 1


def test_where_the_time_went():
    bare, slow = Use(10.0, 19.0, 1.0), Use(13.4, 19.2, 1.4)
    line = explanation.time_line(bare, slow, 2, 34.0)
    assert line == "where the time went: of 34 % that a run takes longer, 31 waiting, 2 in the kernel, 1 computing"
    # The run takes as long, or much longer, than the metric says.
    assert explanation.time_line(bare, bare, 2, 34.0) == ""
    assert explanation.time_line(bare, Use(20.0, 19.2, 1.4), 2, 34.0) == ""
    assert explanation.time_line(Use(0.2, 0.1, 0.1), Use(0.3, 0.2, 0.1), 1, 50.0) == ""


CAUSE = {
    "rule": "variable",
    "about": "X",
    "sentence": "X=1 is set",
    "remedy": "unset it",
    "source": "a#1",
    "experiment": {"kind": UNSET, "value": "X"},
}
OTHER = {**CAUSE, "about": "Y", "sentence": "Y=1 is set", "experiment": None}


def tried(helps, rest, overhead=0.4, took_effect=True, cause=CAUSE, **more):
    metrics = {"rate": {"helps": helps, "rest": rest, "overhead": overhead, "interval": [-0.9, 1.8], "without": 34.0}}
    for metric in metrics.values():
        metric.update(unit="%", rounds=3)
    result = {"name": "remedy1", "failed": "", "metrics": {**metrics, **more}, "took_effect": took_effect}
    return {**cause, "result": result}


def test_a_proof_is_told_with_its_overhead_and_what_to_do():
    assert explanation.lines([tried("fail", "pass"), OTHER]) == [
        "the cause: X=1 is set",
        "proven: with X removed the overhead of rate is +0.4 (-0.9 to +1.8) %, and +34 % without",
        "do: unset it (a#1)",
    ]


def test_a_part_is_told_as_a_part():
    lines = explanation.lines([tried("fail", "fail", overhead=17.0)])
    assert lines[0] == "a cause: X=1 is set"
    assert lines[1].endswith("it explains 50 % of it")
    assert "proven" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("rest", "spread", "end"),
    [
        ("inconclusive", 17.2, "it explains 97 % of it; pairs spread by 17 %: it is open whether that is all"),
        ("inconclusive", 2.0, "it explains 97 % of it; whether it is all would take more rounds"),
        ("inconclusive", None, "it explains 97 % of it; whether it is all would take more rounds"),
        ("fail", 1.0, "it explains 97 % of it"),
    ],
)
def test_why_it_is_open_whether_a_cause_is_all_is_told(rest, spread, end):
    cause = tried("fail", rest, overhead=1.0)
    interval = [0.5, 1.8] if rest == "fail" else [-0.9, 1.8]
    cause["result"]["metrics"]["rate"].update(spread=spread, tolerance=5.0, interval=interval)
    lines = explanation.lines([cause])
    assert lines[0] == "a cause: X=1 is set"
    assert lines[1].endswith(end)


def test_what_later_rounds_leave_open_is_open():
    """As on the virtual cluster under load: the first rounds were still slow, and the later ones not."""
    cause = tried("fail", "fail", overhead=-2.6)
    cause["result"]["metrics"]["rate"].update(spread=15.0, tolerance=5.0, interval=[-61.0, 32.0], without=65.0)
    end = "it explains 100 % of it; pairs spread by 15 %: it is open whether that is all"
    assert explanation.lines([cause])[1].endswith(end)


@pytest.mark.parametrize(("helps", "rest"), [("inconclusive", "pass"), ("pass", "pass"), ("inconclusive", "fail")])
def test_nothing_is_proven_unless_it_helps_and_is_all(helps, rest):
    assert "proven" not in "\n".join(explanation.lines([tried(helps, rest)]))


def test_one_metric_that_is_still_slow_is_no_proof():
    more = tried("fail", "inconclusive")["result"]["metrics"]["rate"]
    assert not explanation.is_proven(tried("fail", "pass", other=more))


def test_a_remedy_that_did_nothing_refutes_only_if_it_took_the_difference_away():
    assert explanation.lines([tried("pass", "fail"), OTHER]) == [
        "not explained; what differs besides: Y=1 is set",
        "tried, and not the cause: X=1 is set",
    ]
    assert explanation.lines([tried("pass", "fail")]) == ["not explained; tried, and not the cause: X=1 is set"]
    void = explanation.lines([tried("pass", "fail", took_effect=False)])
    assert void == ["what differs, and may be the cause: X=1 is set"]


def test_nothing_known_is_nothing_told():
    assert explanation.lines([]) == []


def test_whether_a_remedy_took_effect_is_looked_up():
    with_x = with_variables(X="1")
    assert explanation.took_effect(CAUSE, BARE, CONTAINER)
    assert not explanation.took_effect(CAUSE, BARE, with_x)
    assert not explanation.took_effect(CAUSE, BARE, None)
    small = CONTAINER._replace(space={"/dev/shm": [8 << 20, 8 << 20]})
    (cause,) = explanation.causes(BARE, small, USED, [TIME])
    assert cause.change == Change(BIND, "/dev/shm")
    assert not explanation.took_effect(explanation.stored([cause])[0], BARE, small)
    assert explanation.took_effect(explanation.stored([cause])[0], BARE, CONTAINER)


def test_a_cause_is_stored_with_its_remedy_and_without_what_only_ranks_it():
    """By a job too, where a metric has no class of its own."""
    metric = SimpleNamespace(name="speed", measures=("computing",), compare="ratio")
    found = with_variables(OPENBLAS_CORETYPE="Prescott")
    entries = explanation.stored(explanation.causes(BARE, found, USED, [metric]))
    assert json.loads(json.dumps(entries)) == entries
    (entry,) = entries
    assert [*entry] == ["rule", "about", "sentence", "remedy", "source", "kinds", "of_use", "stays", "experiment"]
    assert entry["experiment"] == {"kind": "unset", "value": "OPENBLAS_CORETYPE"}
    (entry,) = explanation.stored(explanation.causes(BARE, CONTAINER._replace(libc="musl"), USED, [metric]))
    assert entry["experiment"] is None


def test_causes_that_were_tried_come_first_and_none_is_twice():
    found = explanation.causes(BARE, with_variables(OPENBLAS_CORETYPE="Prescott", MALLOC_ARENA_MAX="1"), USED, [TIME])
    first = explanation.stored(found)
    again = explanation.stored(found, first[:1], [{"name": "remedy1"}])
    assert [entry["about"] for entry in again] == [entry["about"] for entry in first]
    assert [("result" in entry) for entry in again] == [True, False]


@pytest.mark.parametrize(
    ("facts", "experiment"),
    [
        ({"limits": {"Max locked memory": "65536"}}, Change(LIMIT, "Max locked memory=unlimited")),
        ({"limits": {"Max open files": "1048576"}}, Change(LIMIT, "Max open files=1024")),
        ({"priority": [10, 0]}, None),
        ({"priority": [0, 5]}, None),
        ({"priority": [0, 3]}, Change(PREFIX, "chrt -o 0")),
        ({"space": {"/dev/shm": [11 << 30, 1 << 20]}}, Change(BIND, "/dev/shm")),
    ],
)
def test_what_can_be_taken_away_has_an_experiment(facts, experiment):
    (cause,) = explanation.causes(BARE, CONTAINER._replace(**facts), USED, [TIME])
    assert cause.change == experiment


def ended(count, runs, ended_well=5, **facts):
    result = {"name": "remedy1", "failed": "", "took_effect": True, "ended_well": ended_well, "metrics": {}, **facts}
    return {**CAUSE, "ended": [count, runs], "result": result}


def test_what_ends_runs_is_proven_where_none_ended_well_and_all_with_the_remedy():
    assert explanation.lines([ended(3, 3), OTHER]) == [
        "the cause: X=1 is set",
        "proven: with X removed all of 5 runs ended well, and 0 of 3 without",
        "do: unset it (a#1)",
    ]
    assert explanation.outcome(ended(3, 3)) == "proven: all of 5 runs ended well, and 0 of 3 without"


@pytest.mark.parametrize(
    "cause",
    [
        # It ended well by itself, or too rarely for chance to be out of question.
        ended(3, 4),
        ended(2, 2),
        ended(3, 3, ended_well=4),
        ended(3, 3, took_effect=False),
        {**CAUSE, "ended": [3, 3]},
    ],
)
def test_what_may_end_well_by_chance_proves_nothing(cause):
    assert explanation.lines([cause]) == ["what differs, and may be the cause: X=1 is set"]


def test_what_ends_badly_with_its_remedy_too_is_not_the_cause():
    lines = explanation.lines([ended(3, 3, failed="exit status 3")])
    assert lines == ["not explained; tried, and not the cause: X=1 is set"]


def test_gpus_are_handed_in_where_the_runtime_has_words_for_them():
    with_gpu = BARE._replace(devices=[*BARE.devices, "/dev/nvidia0"])
    (cause,) = explanation.causes(with_gpu, CONTAINER, USED, [TIME])
    assert cause.change == Change(GPUS)
    (cause,) = explanation.causes(BARE._replace(devices=[*BARE.devices, "/dev/kfd"]), CONTAINER, USED, [TIME])
    assert cause.change is None


def test_a_directory_with_settings_is_bound_where_nothing_else_comes_with_it():
    path = "/etc/openmpi/openmpi-mca-params.conf"

    def found(on_host, in_container=None, file=path):
        bare = BARE._replace(settings={f"{file} {name}": value for name, value in on_host.items()})
        container = CONTAINER._replace(
            settings={f"{file} {name}": value for name, value in (in_container or {}).items()}
        )
        return [cause.change for cause in explanation.causes(bare, container, USED, [TIME])]

    assert found({"btl": "ofi"}) == [Change(BIND, "/etc/openmpi")]
    # What the image alone has goes away with the host's file, where the host has that file.
    assert found({"pml": "ob1"}, {"pml": "ob1", "btl": "self"}) == [Change(BIND, "/etc/openmpi")]
    assert found({}, {"btl": "self"}) == [None]
    # What slows something else does no harm, and is named with it.
    bound = Change(BIND, "/etc/openmpi")
    assert found({"btl": "ofi", "hwloc_base_binding_policy": "none"}) == [bound, bound]
    bare = BARE._replace(settings={f"{path} {name}": "x" for name in ("btl", "oob_tcp_if_include", "hwloc_base")})
    (cause,) = explanation.causes(bare, CONTAINER, USED, [LATENCY])
    assert cause.sentence.endswith("; hwloc_base and oob_tcp_if_include of the same directory differ too")
    # Of two it would not be known which helps.
    assert found({"btl": "ofi", "pml": "cm"}) == [
        Change(SET, "OMPI_MCA_btl=ofi"),
        Change(SET, "OMPI_MCA_pml=cm"),
    ]
    assert found({"btl": "ofi"}, file="/home/me/.openmpi/mca-params.conf") == [Change(SET, "OMPI_MCA_btl=ofi")]


def test_what_the_runs_used_has_experiments_too():
    bare = Use(10.0, 19.0, threads=1, interfaces=frozenset(["fab0", "lo"]), shared_memory=frozenset(["/dev/shm/a"]))
    bare = bare._replace(watched=10.0)

    def found(*names, **facts):
        libraries = frozenset(f"/usr/lib/{name}" for name in ("libc.so.6", *names))
        container = bare._replace(libraries=libraries, **facts)
        causes = explanation.causes(BARE, CONTAINER, (bare, container), [replace(TIME, measures=("network", "files"))])
        causes += explanation.causes(BARE, CONTAINER, (bare, container), [SPEED, BETWEEN])
        return {cause.rule: cause.change for cause in causes}

    assert found(threads=64)["threads"] == Change(SET, "OMP_NUM_THREADS=1")
    assert found(shared_memory=frozenset())["segments"] == Change(BIND, "/dev/shm")
    assert found(major_faults=9000.0)["faults"] == Change(UNPACK)
    eth = {"interfaces": frozenset(["eth0"])}
    assert found("libmpi.so.40", **eth)["interface"] == Change(SET, "OMPI_MCA_btl_tcp_if_include=fab0")
    both = f"OMPI_MCA_btl_tcp_if_include=fab0{AND}UCX_NET_DEVICES=fab0"
    assert found("libmpi.so.40", "libucp.so.0", **eth)["interface"] == Change(SET, both)
    assert found("libmpich.so.12", "libfabric.so.1", **eth)["interface"] == Change(SET, "FI_TCP_IFACE=fab0")
    assert found(**eth)["interface"] is None


def test_a_remedy_for_what_the_runs_used_took_effect_where_they_no_longer_use_it():
    many, few = Use(10.0, 19.0, threads=64), Use(10.0, 19.0, threads=1)
    (cause,) = explanation.causes(BARE, CONTAINER, (few, many), [SPEED])
    entry = explanation.stored([cause])[0]
    remedied = with_variables(OMP_NUM_THREADS="1")
    assert explanation.took_effect(entry, BARE, remedied, (few, few))
    assert not explanation.took_effect(entry, BARE, remedied, (few, many))
    # Nothing is known of runs that were not watched.
    assert not explanation.took_effect(entry, BARE, remedied)


def test_a_difference_on_other_nodes_only_is_named_with_them():
    small = {"space": {"/dev/shm": [64 << 20, 60 << 20]}}
    bare = BARE._replace(host="node1", nodes={"node2": {}, "node3": {}})
    container = CONTAINER._replace(host="node1", nodes={"node2": small, "node3": small, "node9": small})
    (cause,) = explanation.causes(bare, container, USED, [LATENCY, BETWEEN])
    assert cause.sentence == "on node2 and 1 more node(s): /dev/shm holds 64 MiB in the container, 11 GiB on the host"
    entry = explanation.stored([cause])[0]
    assert explanation.took_effect(entry, bare, container._replace(nodes={"node2": {}}))
    assert not explanation.took_effect(entry, bare, container)
    # What the first node has too is said of it alone, whichever node the other side was seen on.
    everywhere = container._replace(**small, nodes={"node2": small})
    for host in ("node1", "node2"):
        (cause,) = explanation.causes(bare._replace(host=host, nodes={"node1": {}}), everywhere, USED, [BETWEEN])[:1]
        assert cause.sentence.startswith("/dev/shm holds")
    # Nor does it matter whose rank printed: what only its node has is said of that node.
    here = container._replace(**small, nodes={name: {"space": CONTAINER.space} for name in ("node2", "node3")})
    (cause,) = explanation.causes(bare, here, USED, [BETWEEN])
    assert cause.sentence.startswith("on node1: /dev/shm holds")
    # A node's name in a container of its own namespace says nothing.
    named = everywhere._replace(host="4f2a", nodes={"77b1": small})
    assert explanation.causes(bare, named, USED, [BETWEEN])[0].sentence.startswith("/dev/shm holds")


def pairs(*sides):
    """Return the pairs of bare and containers: of each its name, and what else is not usual."""
    bare = {"name": "baseline", "label": "bare", "compared_with": None}
    usual = {"compared_with": "baseline", "contained": True}
    told = [bare, *({"name": name, "label": name, **usual, **facts} for name, facts in sides)]
    return pairs_of(Facts(facts_of(sides=told)).sides)


def test_what_a_successor_differs_in_is_said_with_both_names():
    _, pair = pairs(("old", {}), ("new", {"compared_with": "old"}))
    assert (pair.baseline.name, pair.subject.name, pair.is_only) == ("old", "new", False)
    found = CONTAINER._replace(space={"/dev/shm": [8 << 20, 8 << 20]}, priority=[19, 0])
    named = pair.named(explanation.causes(CONTAINER, found, USED, [TIME]))
    assert [cause.sentence for cause in named] == [
        "/dev/shm holds 8 MiB in new, 11 GiB in old",
        "new's processes run at nice 19, those of old at 0",
    ]
    assert explanation.lines(explanation.stored(named))[0].startswith("new: what differs, and may be the cause: /dev/")


def test_each_of_several_containers_has_causes_of_its_own():
    found = [with_variables(UCX_TLS="tcp"), CONTAINER._replace(space={"/dev/shm": [8 << 20, 8 << 20]})]
    named = [
        cause
        for pair, container in zip(pairs(("podman", {}), ("charliecloud", {})), found)
        for cause in pair.named(explanation.causes(BARE, container, USED, [BETWEEN]))
    ]
    assert explanation.lines(explanation.stored(named)) == [
        "podman: what differs, and may be the cause: UCX_TLS=tcp is set in podman, and not on the host: it chooses how "
        "the fabric is used",
        "charliecloud: what differs, and may be the cause: /dev/shm holds 8 MiB in charliecloud, 11 GiB on the host",
    ]


def test_the_only_container_needs_no_name():
    (pair,) = pairs(("subject", {}))
    causes = explanation.causes(BARE, with_variables(UCX_TLS="tcp"), USED, [TIME])
    assert pair.named(causes) == causes
    assert "side" not in explanation.stored(causes)[0]


def test_what_both_runtimes_do_is_no_cause():
    """Both read the image through FUSE; against bare that counts."""
    mounted = CONTAINER._replace(mounts={"/": ["fuse.squashfuse_ll", "squashfuse_ll", "ro"]})
    files = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
    assert explanation.causes(mounted, mounted, USED, [files]) == []
    assert explanation.causes(BARE, mounted, USED, [files])


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({"cgroup_limits": {"processors": 0.5}}, "the container's cgroup allows it the time of 0.5 of 4 processors"),
        ({"cgroup_limits": {"processes": 10}}, "the container's cgroup allows it 10 processes and threads"),
        ({"machine": "aarch64"}, "programs run on aarch64 in the container, on x86_64 on the host: emulated"),
        ({"instructions": ["avx"]}, "the processor has no avx2 in the container, and has on the host"),
    ],
)
def test_what_a_cgroup_or_an_emulator_takes_away_is_named(facts, start):
    bare = BARE._replace(machine="x86_64", instructions=["avx", "avx2"])
    same = CONTAINER._replace(machine="x86_64", instructions=["avx", "avx2"])
    assert explanation.causes(bare, same, USED, [TIME]) == []
    (cause,) = explanation.causes(bare, same._replace(**facts), USED, [TIME])
    assert cause.sentence.startswith(start)


def test_limits_of_a_cgroup_that_cannot_matter_are_not_named():
    wide = CONTAINER._replace(cgroup_limits={"processors": 8.0, "processes": 30000.0})
    assert sentences(wide, TIME) == []
    both = {"processors": 0.5}
    assert (
        explanation.causes(BARE._replace(cgroup_limits=both), CONTAINER._replace(cgroup_limits=both), USED, [TIME])
        == []
    )


def test_a_soft_limit_that_a_job_may_raise_says_so():
    low = CONTAINER._replace(limits={"Max locked memory": "65536"}, hard_limits={"Max locked memory": "unlimited"})
    (cause,) = explanation.causes(BARE, low, USED, [LATENCY])
    assert "the hard limit is unlimited, so that a job may raise it itself (ulimit)" in cause.remedy


def test_open_devices_processors_and_reads_of_the_runs_are_named():
    bare = Use(
        10.0, libraries=frozenset(["/lib/libc.so.6"]), devices=frozenset(["/dev/infiniband/uverbs0"]), processors=4
    )

    def found(metric, **facts):
        return [
            cause.sentence for cause in explanation.causes(BARE, CONTAINER, (bare, bare._replace(**facts)), [metric])
        ]

    assert found(LATENCY) == []
    assert found(LATENCY, devices=frozenset()) == [
        "MPI has /dev/infiniband/uverbs0 open on the host, and no device of a fabric in the container"
    ]
    assert found(SPEED, processors=1) == [
        "ranks and their threads may run on 1 processor in the container, on 4 processors on the host"
    ]
    assert found(SPEED, processors=3) == []
    files = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
    assert found(files, read=float(100 << 20)) == ["a run reads 100 MiB from disks in the container, 0 B on the host"]
    assert found(TIME, read=float(100 << 20)) == []


def test_what_is_seen_before_and_during_the_runs_is_named_once():
    limited = CONTAINER._replace(cgroup_limits={"processors": 0.5})
    (cause,) = explanation.causes(BARE, limited, (Use(), Use(throttled=[90, 100, 0.5])), [TIME])
    assert "held back in 90 of 100 periods" in cause.sentence
    pinned = CONTAINER._replace(status={**CONTAINER.status, "Cpus_allowed_list": "0"})
    (cause,) = explanation.causes(BARE, pinned, (Use(processors=4), Use(processors=1)), [TIME])
    assert cause.change == Change(CPUS, "0-3")


def test_little_space_for_temporary_files_ends_runs_and_slows_none():
    bare = BARE._replace(space={"/": [90 << 30, 20 << 30]})
    found = CONTAINER._replace(space={"/": [1 << 40, 1 << 40], "/tmp": [64 << 20, 60 << 20]})
    assert explanation.causes(bare, found, USED, [TIME]) == []
    (cause,) = explanation.causes_of_end(bare, found, USED, 1)
    assert cause.sentence == "/tmp has 60 MiB free in the container, 20 GiB on the host"
    assert cause.change == Change(BIND, "/tmp")
    full = bare._replace(space={"/": [90 << 30, 90 << 20]})
    assert explanation.causes_of_end(full, found, USED, 1) == []


def test_a_search_path_for_libraries_that_the_job_hands_on_is_named():
    set_by = {"LD_LIBRARY_PATH": "APPTAINERENV_LD_LIBRARY_PATH"}
    path = with_variables(LD_LIBRARY_PATH="/hostlib")._replace(set_by=set_by)
    assert sentences(path, TIME) == [
        "LD_LIBRARY_PATH=/hostlib is set by APPTAINERENV_LD_LIBRARY_PATH: the container may load other libraries than "
        "its own"
    ]
    assert sentences(with_variables(LD_LIBRARY_PATH="/hostlib"), TIME) == []
    assert explanation.causes(path, path, USED, [TIME]) == []


LIMITS, DEVICES = ([name for name, _ in causes.rules_of(kind)] for kind in ("limit", "device"))
TEXTS = st.sampled_from(["", "0", "1", "none", "unlimited", "1048576", "0-3", "hidden:1", "libc 2.31", "musl", "sync"])
NUMBERS = st.integers(0, 1 << 40)
NAMES = st.sampled_from(
    [
        *("UCX_TLS", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "OMPI_MCA_btl", "TMPDIR", "HOME"),
        *("Max open files", "Cpus_allowed_list", "Mems_allowed_list", "Seccomp", "THP_enabled", *LIMITS),
        *("processors", "memory", "processes", "/", "/tmp", "/dev/shm", "/etc/openmpi/openmpi-mca-params.conf btl"),
    ]
)
PATHS = st.sampled_from(
    [*DEVICES, "/l/libmpi.so.40", "/l/libmpich.so.12", "/l/libblas.so", "/l/libopenblas.so", "/l/libucp.so"]
)
FIELDS = {
    "space": st.dictionaries(NAMES, st.tuples(NUMBERS, NUMBERS)),
    "mounts": st.dictionaries(NAMES, st.sampled_from([("fuse.squashfuse", "squashfuse", "ro"), ("ext4", "v", "sync")])),
    "status": st.fixed_dictionaries({"Cpus_allowed_list": st.sampled_from(["0", "0-3"])}),
    "cgroup_limits": st.dictionaries(NAMES, st.floats(0, 1e12)),
    "devices": st.lists(PATHS),
    "priority": st.sampled_from([(), (0, 0), (19, 3), (0, 5)]),
    "nodes": st.just({}),
}


def values(name, kind):
    """Return a strategy for a field of what a side saw or used."""
    if name in FIELDS:
        return FIELDS[name]
    for word, strategy in (("Mapping", st.dictionaries(NAMES, TEXTS)), ("FrozenSet", st.frozensets(PATHS))):
        if word in kind:
            return strategy
    if "float]" in kind:
        return st.one_of(st.just(()), st.tuples(NUMBERS, NUMBERS, NUMBERS))
    return {"str": TEXTS, "int": NUMBERS, "float": st.floats(0, 1e12)}.get(kind, st.lists(NAMES))


def spelt(kind):
    """Return the name of a field's type, in the words of typing."""
    return getattr(kind, "__name__", "") if kind in (str, int, float) else str(kind)


def any_of(kind):
    """Return a strategy for all that a side may have seen, or used."""
    return st.builds(kind, **{name: values(name, spelt(of)) for name, of in kind.__annotations__.items()})


@given(any_of(Observation), any_of(Use))
def test_between_equal_sides_no_rule_finds_a_cause(seen, used):
    assert [cause.sentence for rule in rules.RULES_OF_SIGHT for cause in rule(seen, seen)] == []
    assert [cause.sentence for rule in use_rules.RULES_OF_USE for cause in rule(used, used)] == []


def test_each_rule_of_the_table_is_complete_and_has_its_comparison():
    kinds = {title.partition(": ")[0] for title in causes.RULES if title.startswith("every ")}
    kinds = {kind[len("every ") :] for kind in kinds} | {"value", "rate"}
    used = set(re.findall(r"RULES\[\"([^\"]+)\"", inspect.getsource(rules) + inspect.getsource(use_rules)))
    used |= {"linear algebra", "linear algebra: reference", "memory limit: tight", "memory limit: of runs"}
    used |= {"family: MPI", "family: OpenMP"}
    for title, rule in causes.RULES.items():
        if title.startswith("every "):
            continue
        assert title in used or title.partition(":")[0] in kinds, title
        assert {*rule.kinds} <= {*MEASURED} and (rule.kinds or title == "space"), title
        assert 0 < rule.weight <= 100, title
        assert {"about", "sentence", "remedy", "source"} <= {*rule.fields}, title
        assert {*rule.fields.get("devices", "").split()} <= {*FABRICS, "/dev/xpmem"}, title
    assert used <= {*causes.RULES}
