"""Explanations: rules find what differs and can explain a metric; experiments prove it, refute it, or say nothing."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import facts_of, write_program
from containercheck import Metric
from containercheck.job import run_observation
from containercheck.job.contract import MEASURED, WORKDIR
from containercheck.job.explain import causes, explanation, halving, rules, use_rules
from containercheck.job.explain.causes import (
    AND,
    BIND,
    CPUS,
    GPUS,
    HIDE,
    LIMIT,
    OPTION,
    PREFIX,
    SET,
    UNPACK,
    UNSET,
    Change,
)
from containercheck.job.explain.observations import DIRECTORY, Observation, Use, pairs_of
from containercheck.job.outputs.facts import Facts

USED = (Use(), Use())
SPEED = Metric("speed", r"^speed (\S+)", "x", measures=("computing",))
LATENCY = Metric("latency", r"^latency (\S+)", "us", better="lower", measures=("network",))
BETWEEN = replace(LATENCY, measures=("messages",))
FILES = Metric("files", r"^files (\S+)", "1/s", measures=("files",))
START = Metric("start", r"^start (\S+)", "s", better="lower", measures=("start",))
#: Of an application as a whole.
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
        "Nice": "0",
        "Policy": "0",
    },
    space={"/dev/shm": [11 << 30, 10 << 30]},
    mounts={"/": ["ext4", "/dev/vda", "rw"]},
    libc="glibc 2.36",
    machine="x86_64",
    instructions=["avx", "avx2"],
    devices=["/dev/infiniband/uverbs0"],
)
CONTAINER = BARE._replace(environment={**BARE.environment, "LD_LIBRARY_PATH": "/.singularity.d/libs", "LC_ALL": "C"})
LOCKED = {"limits": {"Max locked memory": "65536"}}
SMALL = {"space": {"/dev/shm": [8 << 20, 8 << 20]}}
THROUGH_FUSE = {"mounts": {"/": ["fuse.squashfuse_ll", "squashfuse_ll", "ro"], "/tmp": ["ext4", "/dev/vda", "rw"]}}
CONFIGURATION = "/etc/openmpi/openmpi-mca-params.conf"


def with_variables(**variables):
    return CONTAINER._replace(environment={**CONTAINER.environment, **variables})


def settings(*names, value="none"):
    return {f"{CONFIGURATION} {name}": value for name in names}


def loaded(*libraries, **facts):
    """Return what runs used that loaded some libraries."""
    return Use(10.0, 19.0, libraries=frozenset(f"/usr/lib/{name}" for name in ("libc.so.6", *libraries)), **facts)


def found(container, *failed, uses=USED, bare=BARE, ranks=2):
    return explanation.causes(bare, container, uses, failed, ranks)


def abouts(*words, **facts):
    return [cause.about for cause in found(*words, **facts)]


def test_what_always_differs_explains_nothing():
    of_rank = {"OMPI_MCA_orte_ess_vpid": "1", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "I_MPI_PIN_INFO": "1"}
    assert found(with_variables(**of_rank), SPEED, LATENCY, TIME) == []
    assert found(CONTAINER, SPEED, bare=None) == found(with_variables(OMP_NUM_THREADS="64")) == []


FULL = {"space": {"/dev/shm": [11 << 30, 1 << 20]}}
MITIGATED = {"status": {"Speculation_Store_Bypass": "thread force mitigated"}}
SYNCHRONOUS = {"mounts": {"/scratch": ["tmpfs", "none", "rw", "rw,sync"]}, "directories": {"/scratch": "usable"}}
UNFILTERED = Change(OPTION, "--security-opt seccomp=unconfined")
OF_CPUS, OF_PIDS = Change(OPTION, "--cpus=0"), Change(OPTION, "--pids-limit=-1")
#: What a side sees otherwise than bare, a metric that it explains and one that it does not, and how a person reads it.
SEEN = [
    (SMALL, BETWEEN, SPEED, "/dev/shm holds 8 MiB in the container, 11 GiB on the host", Change(BIND, "/dev/shm")),
    (FULL, TIME, None, "/dev/shm has 1 MiB free in the container", Change(BIND, "/dev/shm")),
    ({"status": {"Cpus_allowed_list": "0"}}, SPEED, None, "processors 0 are allowed in the co", Change(CPUS, "0-3")),
    ({"status": {"Mems_allowed_list": "1"}}, TIME, None, "memory of nodes 1 (NUMA) is allowed in the container", None),
    ({"status": {"THP_enabled": "0"}}, TIME, None, "the container's processes get no transparent huge pages", None),
    (MITIGATED, TIME, None, "seccomp switches the mitigation", UNFILTERED),
    ({"status": {"Seccomp": "2"}}, FILES, TIME, "a filter (seccomp) looks at each system call in the", UNFILTERED),
    (LOCKED, LATENCY, None, "the limit of locked memory is 65536", Change(LIMIT, "Max locked memory=unlimited")),
    ({"limits": {"Max open files": "1048576"}}, TIME, None, "", Change(LIMIT, "Max open files=1024")),
    ({"libc": "musl"}, TIME, None, "libc is musl in the container", None),
    ({"libc": "glibc 2.17"}, TIME, None, "glibc is 2.17 in the container, 2.36 on the host", None),
    ({"status": {"Nice": "19"}}, TIME, None, "the container's processes run at nice 19, those of the host at 0", None),
    ({"status": {"Policy": "5"}}, TIME, None, "the kernel treats the container's processes as idle work", None),
    ({"status": {"Policy": "3"}}, TIME, None, "", Change(PREFIX, "chrt -o 0")),
    (THROUGH_FUSE, FILES, TIME, "", Change(UNPACK)),
    (
        {"cgroup_limits": {"processors": 0.5}},
        TIME,
        None,
        "the container's cgroup allows it the time of 0.5 processors (4 on the host)",
        OF_CPUS,
    ),
    (
        {"cgroup_limits": {"processes": 10}},
        TIME,
        None,
        "the container's cgroup allows it 10 processes and threads (no limit on the host)",
        OF_PIDS,
    ),
    (
        {"status": {"SigIgn": "0000000000001002"}},
        TIME,
        None,
        "the container's processes ignore SIGINT and SIGPIPE, those of the host do not",
        Change(PREFIX, "env --default-signal=INT,PIPE"),
    ),
    ({"status": {"SigBlk": "0000000000000200"}}, TIME, None, "the container's processes block SIGUSR1", None),
    ({"machine": "aarch64"}, TIME, None, "programs run on aarch64 in the container, on x86_64 on the host", None),
    ({"instructions": ["avx"]}, TIME, None, "the processor has no avx2 in the container, and has on the host", None),
    ({"devices": []}, LATENCY, SPEED, "/dev/infiniband/uverbs0 is on the host", Change(BIND, "/dev/infiniband")),
    (SYNCHRONOUS, FILES, TIME, "/scratch is mounted with sync in the container", Change(BIND, "/scratch")),
]


@pytest.mark.parametrize(("facts", "metric", "other", "start", "change"), SEEN)
def test_what_differs_before_the_runs_is_named_for_the_metrics_that_it_can_slow(facts, metric, other, start, change):
    (cause,) = found(CONTAINER._replace(**facts), metric)
    assert cause.sentence.startswith(start)
    assert cause.change == change
    assert not other or found(CONTAINER._replace(**facts), other) == []


@pytest.mark.parametrize(
    ("bare", "facts"),
    [
        # Wider than the host, or the same on both sides.
        ({}, {"cgroup_limits": {"processors": 8.0, "processes": 30000.0}}),
        ({"cgroup_limits": {"processors": 0.5}}, {"cgroup_limits": {"processors": 0.5}}),
        # Signals that the host ignores too, and something else than a mask.
        ({"status": {"SigIgn": "1000"}}, {"status": {"SigIgn": "1000"}}),
        ({}, {"status": {"SigIgn": "?"}}),
        # In which nobody can write.
        ({}, {**SYNCHRONOUS, "directories": {"/scratch": "missing"}}),
        ({"devices": []}, {"devices": []}),
    ],
)
def test_what_cannot_matter_on_this_node_is_not_named(bare, facts):
    assert found(CONTAINER._replace(**facts), TIME, FILES, bare=BARE._replace(**bare)) == []


def test_gpus_are_handed_in_where_the_runtime_has_words_for_them():
    for device, change in (("/dev/nvidia0", Change(GPUS)), ("/dev/kfd", None)):
        (cause,) = found(CONTAINER, SPEED, bare=BARE._replace(devices=[*BARE.devices, device]))
        assert cause.change == change


def test_a_variable_explains_its_kinds_and_who_sets_it_is_named():
    both = with_variables(OPENBLAS_CORETYPE="Prescott", UCX_TLS="tcp")
    assert abouts(both, SPEED) == ["OPENBLAS_CORETYPE"]
    assert abouts(both, LATENCY) == ["UCX_TLS"]
    assert len(abouts(both, TIME)) == 2
    by_image = with_variables(OPENBLAS_CORETYPE="Prescott")._replace(image_variables=["OPENBLAS_CORETYPE"])
    by_site = by_image._replace(set_by={"OPENBLAS_CORETYPE": "APPTAINERENV_OPENBLAS_CORETYPE"})
    for container, who in (
        (both, "in the container, and not on the host"),
        (by_image, "by the image"),
        (by_site, "by APPTAINERENV_OPENBLAS_CORETYPE"),
    ):
        (cause,) = found(container, SPEED)
        assert cause.sentence.startswith(f"OPENBLAS_CORETYPE=Prescott is set {who}")


def test_a_variable_is_removed_or_set_as_on_the_host():
    without = {name: value for name, value in CONTAINER.environment.items() if name != "UCX_NET_DEVICES"}
    for container, change in (
        (with_variables(OPENBLAS_CORETYPE="Prescott"), Change(UNSET, "OPENBLAS_CORETYPE")),
        (with_variables(OMP_NUM_THREADS="64"), Change(SET, "OMP_NUM_THREADS=1")),
        (CONTAINER._replace(environment=without), Change(SET, "UCX_NET_DEVICES=mlx5_0:1")),
    ):
        assert [cause.change for cause in found(container, TIME)] == [change]


#: What runs used: bare's, the container's, a metric, and the sentence's start; None where nothing is to be named.
BUSY = Use(10.0, 19.0, 1.0, 0.0, 1, frozenset(["/usr/lib/openblas-serial/libopenblas-r0.so"]), frozenset(["fab0"]))
BUSY = BUSY._replace(watched=10.0, processors=4, devices=frozenset(["/dev/infiniband/uverbs0"]))
OF_RUNS = [
    ({"throttled": [90, 100, 0.5]}, TIME, "the container's cgroup limits it to 0.5 processors (4 on the host): it"),
    ({"throttled": [1, 100, 0.5]}, TIME, None),
    ({"threads": 64}, TIME, "a process has 64 threads in the container, 1 on the host"),
    ({"libraries": frozenset(["/usr/lib/blas/libblas.so.3"])}, TIME, "linear algebra is the reference"),
    ({"interfaces": frozenset(["eth0", "lo"])}, TIME, "MPI talks over eth0 in the container, over fab0 on the host"),
    ({"helpers": 6.0, "seconds": 14.0}, TIME, "the runtime's helpers take 6.0 s"),
    # Helpers that hold nothing up, or far less than is missing, are no cause.
    ({"helpers": 6.0, "seconds": 11.0}, TIME, None),
    ({"helpers": 2.0, "seconds": 60.0}, TIME, None),
    ({"user_namespaces": 1}, TIME, None),
    ({"user_namespaces": 2}, TIME, "the ranks of a node are in 2 user namespaces in the container"),
    # Memory that is tight explains more than files.
    ({"memory_limit": 2 << 30}, TIME, None),
    ({"memory_limit": 2 << 30, "memory": 1.5 * 2**30}, TIME, "the container's cgroup limits its memory to 2 GiB (no"),
    ({"faults": 9000.0}, TIME, None),
    ({"faults": 90000.0}, TIME, "processes take 9000 page faults"),
    ({"major_faults": 9000.0}, TIME, None),
    ({"major_faults": 9000.0}, FILES, "900 pages a second are read from files"),
    ({"switched_out": 9000.0}, TIME, "processes are switched out 900 times a second"),
    # It was seen at its start only: it has no rates.
    ({"switched_out": 9000.0, "watched": 0.5}, TIME, None),
    ({"devices": frozenset()}, LATENCY, "MPI has /dev/infiniband/uverbs0 open on the host, and no device of a fabric"),
    ({"processors": 1}, SPEED, "ranks and their threads may run on 1 processor in the container, on 4 processors"),
    ({"processors": 3}, SPEED, None),
    ({"read": float(100 << 20)}, FILES, "a run reads 100 MiB from disks in the container, 0 B on the host"),
    ({"read": float(100 << 20)}, TIME, None),
]


@pytest.mark.parametrize(("facts", "metric", "start"), OF_RUNS)
def test_what_the_runs_used_is_named_for_the_metrics_that_it_can_slow(facts, metric, start):
    sentences = [cause.sentence for cause in found(CONTAINER, metric, uses=(BUSY, BUSY._replace(**facts)))]
    assert len(sentences) == bool(start) and all(sentence.startswith(start) for sentence in sentences)


@pytest.mark.parametrize(
    ("on_host", "in_container", "sentence"),
    [
        (["libjemalloc.so.2"], [], "memory is allocated by jemalloc on the host, and not in the container"),
        (["libucp.so.0"], [], "MPI has ucp for the fabric on the host, and not in the container"),
        (["libucp.so.0"], ["ucx/libucp.so.0"], None),
        ([], ["libucp.so.0"], None),
        ([], ["libasan.so.8"], "asan watches the program in the container, and not on the host"),
        (["libfftw3.so.3"], ["libfftw3f.so.3"], None),
        (["libcudart.so.12"], [], "GPUs are used, by cudart on the host, and not in the container"),
        (["libmpi.so.40"], ["libmpi.so.12"], "MPI is MPICH's family in the container, Open MPI on the host"),
        (["libmpich.so.12.2"], ["libmpi.so.12"], "MPI is libmpi.so.12 in the container, libmpich.so.12 on the host"),
        (["libgomp.so.1"], ["libiomp5.so"], "OpenMP is LLVM's or Intel's in the container, GNU's on the host"),
    ],
)
def test_a_library_that_only_one_side_has_is_named(on_host, in_container, sentence):
    uses = loaded(*on_host), loaded(*in_container)
    assert [cause.sentence for cause in found(CONTAINER, TIME, uses=uses)] == ([sentence] if sentence else [])


@pytest.mark.parametrize(
    ("program", "printed", "status", "found"),
    [
        ("dpkg-query", "libopenblas0-serial:amd64: /x/libblas.so", 0, "libopenblas0-serial (/x/libblas.so)"),
        ("rpm", "openblas-serial:", 0, "openblas-serial (/x/libblas.so)"),
        ("rpm", "file /x/libblas.so is not owned by any package", 1, "/x/libblas.so"),
    ],
)
def test_a_library_of_the_host_is_named_with_its_package(tmp_path, monkeypatch, program, printed, status, found):
    write_program(tmp_path / program, f"echo '{printed}'; exit {status}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert use_rules.packaged.__wrapped__("/x/libblas.so") == found


def test_without_what_the_runs_loaded_no_library_is_missing():
    bare = loaded("libucp.so.0", shared_memory=frozenset(["/dev/shm/seg"]))
    assert found(CONTAINER, TIME, uses=(bare, Use(10.0, 19.0))) == []
    (cause,) = found(CONTAINER, LATENCY, TIME, uses=(bare, loaded("libucp.so.0")))
    assert cause.sentence == "ranks share /dev/shm/seg on the host, and no memory in the container"
    # Nor one for a fabric where there is none.
    uses = loaded("libpsm2.so.2"), loaded()
    without = BARE._replace(devices=[])
    assert len(found(CONTAINER, TIME, uses=uses)) == 1
    assert found(CONTAINER._replace(devices=[]), TIME, uses=uses, bare=without) == []


def test_settings_of_another_mpi_than_the_containers_explain_nothing():
    """Seen with two images of Quantum ESPRESSO: Open MPI's settings "did not reach" MPICH, which was twice as slow."""
    bare = BARE._replace(settings=settings("btl", value="^uct"))
    # What their launchers set by themselves is no cause either.
    own = {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "node1", "PMIX_MCA_mca_base_component_show_load_errors": "1"}
    container = with_variables(OMPI_MCA_btl="self", I_MPI_FABRICS="shm", **own)
    open_mpi, mpich = loaded("libmpi.so.40"), loaded("libmpich.so.12")
    for inside, expected in (
        (open_mpi, ["OMPI_MCA_btl", "btl"]),
        (mpich, ["I_MPI_FABRICS", "MPI"]),
        (Use(), ["OMPI_MCA_btl", "btl"]),
    ):
        assert sorted(abouts(container, LATENCY, uses=(open_mpi, inside), bare=bare)) == expected


def test_a_setting_explains_what_it_is_about():
    names = ("hwloc_base_binding_policy", "oob_tcp_if_include", "btl_tcp_if_include")
    bare = BARE._replace(settings=settings(*names))
    assert [abouts(CONTAINER, metric, bare=bare) for metric in (SPEED, START, LATENCY)] == [[name] for name in names]
    # Of a run that hangs, those of messages only.
    assert [cause.about for cause in explanation.causes_of_end(bare, CONTAINER, USED)] == [*names[-1:]]
    # A port is a setting like another one; that of a rank's server is not.
    ports = with_variables(OMPI_MCA_btl_tcp_port_min_v4="20000", PMIX_MCA_ptl_tcp_server_PORT="1")
    assert [cause.about for cause in explanation.causes_of_end(BARE, ports, USED)] == ["OMPI_MCA_btl_tcp_port_min_v4"]


@pytest.mark.parametrize(
    ("on_host", "in_container", "changes"),
    [
        (["btl"], [], [Change(BIND, "/etc/openmpi")]),
        # What the image alone has goes away with the host's file, where the host has that file.
        (["pml"], ["pml", "btl"], [Change(BIND, "/etc/openmpi")]),
        (["pml"], ["pml", "btl", "mtl"], [None, None]),
        ([], ["btl"], [None]),
        # Of two it would not be known which helps.
        (["btl", "pml"], [], [Change(SET, "OMPI_MCA_btl=none"), Change(SET, "OMPI_MCA_pml=none")]),
    ],
)
def test_a_directory_with_settings_is_bound_where_nothing_else_comes_with_it(on_host, in_container, changes):
    bare, container = BARE._replace(settings=settings(*on_host)), CONTAINER._replace(settings=settings(*in_container))
    causes = found(container, TIME, bare=bare)
    assert [cause.change for cause in causes] == changes
    at_home = BARE._replace(settings={"/home/me/.openmpi/mca-params.conf btl": "ofi"})
    assert [cause.change for cause in found(CONTAINER, TIME, bare=at_home)] == [Change(SET, "OMPI_MCA_btl=ofi")]


def test_what_the_runs_used_has_experiments_too():
    bare = Use(10.0, 19.0, threads=1, interfaces=frozenset(["fab0", "lo"]), shared_memory=frozenset(["/dev/shm/a"]))
    bare = bare._replace(watched=10.0)

    def change_of(rule, *names, **facts):
        container = bare._replace(libraries=loaded(*names).libraries, **facts)
        causes = found(CONTAINER, replace(TIME, measures=tuple(MEASURED)), uses=(bare, container))
        return {cause.rule: cause.change for cause in causes}[rule]

    assert change_of("threads", threads=64) == Change(SET, "OMP_NUM_THREADS=1")
    assert change_of("segments", shared_memory=frozenset()) == Change(BIND, "/dev/shm")
    assert change_of("faults", major_faults=9000.0) == Change(UNPACK)
    for libraries, values in (
        (["libmpi.so.40"], ["OMPI_MCA_btl_tcp_if_include=fab0"]),
        (["libmpi.so.40", "libucp.so.0"], ["OMPI_MCA_btl_tcp_if_include=fab0", "UCX_NET_DEVICES=fab0"]),
        (["libmpich.so.12", "libfabric.so.1"], ["FI_TCP_IFACE=fab0"]),
        ([], None),
    ):
        change = change_of("interface", *libraries, interfaces=frozenset(["eth0"]))
        assert change == (Change(SET, AND.join(values)) if values else None)


def test_messages_slow_no_application_of_one_rank_unless_the_metric_says_so():
    container = with_variables(OMPI_MCA_btl="self,tcp", OMP_NUM_THREADS="64")
    assert abouts(container, TIME, ranks=1) == ["OMP_NUM_THREADS"]
    assert len(abouts(container, TIME)) == 2
    assert len(abouts(with_variables(UCX_TLS="tcp"), LATENCY, ranks=1)) == 1


def test_what_can_end_a_run_is_named_and_not_what_only_slows_it():
    container = with_variables(OMPI_MCA_btl="self,tcp", OPENBLAS_CORETYPE="Prescott", MALLOC_ARENA_MAX="1")
    space = {"/": [1 << 40, 1 << 40], "/tmp": [64 << 20, 60 << 20], "/dev/shm": [64 << 20, 1 << 20]}
    limits = {"Max processes": "10", "Max open files": "16", "Max core file size": "0"}
    cgroup = {"processes": 100.0}
    container = container._replace(limits={**BARE.limits, **limits}, space=space, cgroup_limits=cgroup, **THROUGH_FUSE)
    bare = BARE._replace(
        limits={**BARE.limits, "Max processes": "100", "Max core file size": "8"},
        space={**BARE.space, "/": [90 << 30, 20 << 30]},
    )

    def named(ranks, bare=bare):
        return [cause.about for cause in explanation.causes_of_end(bare, container, USED, ranks)]

    assert named(2) == ["OMPI_MCA_btl", "/dev/shm", "/tmp", "Max processes", "Max open files", "cgroup processes"]
    # One rank talks to nobody.
    assert named(1) == ["/dev/shm", "/tmp", "Max processes", "Max open files", "cgroup processes"]
    # Little space, few files and processes end runs, and slow none. Space that the host lacks too is not a difference.
    assert not {"/tmp", "Max open files", "cgroup processes"} & {*abouts(container, TIME, bare=bare)}
    assert "/tmp" not in named(2, bare._replace(space={"/": [90 << 30, 90 << 20]}))
    assert explanation.causes_of_end(BARE, CONTAINER, USED) == explanation.causes_of_end(None, None, USED) == []


def test_ranks_in_user_namespaces_of_their_own_are_told_not_to_copy_directly():
    """HPCC's PTRANS hung in rootless containers with Open MPI 4.1.4, and ended well with the first setting."""
    bare, container = (loaded("libmpi.so.40", user_namespaces=number) for number in (0, 2))
    cause = explanation.causes_of_end(BARE, BARE, (bare, container))[0]
    assert cause.change == Change(SET, AND.join(use_rules.NO_DIRECT_COPIES)), cause
    # The namespaces stay: what counts is that the settings reached the ranks.
    stored = explanation.entry(cause)
    remedied = BARE._replace(environment=dict(setting.split("=", 1) for setting in use_rules.NO_DIRECT_COPIES))
    assert explanation.took_effect(stored, BARE, remedied, (bare, container))
    assert not explanation.took_effect(stored, BARE, BARE, (bare, container))
    # Others have no such settings.
    causes = explanation.causes_of_end(BARE, BARE, (bare, loaded("libmpich.so.12", user_namespaces=2)))
    assert [cause.change for cause in causes if cause.rule == "namespaces"] == [None]


def test_the_first_run_of_a_side_does_not_count_where_there_are_others():
    def run(faults, **facts):
        used = {name: 0 for name in Use._fields}
        used.update(throttled=[], libraries=[], interfaces=[], shared_memory=[], devices=[])
        return {"status": 0, "seconds": 1.0, "used": {**used, "major_faults": faults}, **facts}

    assert Use.of([run(900)]).major_faults == 900
    assert Use.of([run(900), run(3), run(5)]).major_faults == 4
    # Of what hung it is known what it waited with; what died may not have come to it.
    hung, died = (run(7, status=-15, timed_out=hangs) for hangs in (True, False))
    assert Use.of([run(900), hung]).major_faults == 900
    assert Use.of([hung, died]).major_faults == 7
    assert Use.of([died]) == Use()


def test_what_is_seen_before_and_during_the_runs_is_named_once():
    limited = CONTAINER._replace(cgroup_limits={"processors": 0.5})
    (cause,) = found(limited, TIME, uses=(Use(), Use(throttled=[90, 100, 0.5])))
    assert "held back in 90 of 100 periods" in cause.sentence
    pinned = CONTAINER._replace(status={**CONTAINER.status, "Cpus_allowed_list": "0"})
    (cause,) = found(pinned, TIME, uses=(Use(processors=4), Use(processors=1)))
    assert cause.change == Change(CPUS, "0-3")


def test_a_soft_limit_that_a_job_may_raise_says_so():
    low = CONTAINER._replace(**LOCKED, hard_limits={"Max locked memory": "unlimited"})
    (cause,) = found(low, LATENCY)
    assert "the hard limit is unlimited, so that a job may raise it itself (ulimit)" in cause.remedy


def test_a_difference_on_other_nodes_only_is_named_with_them():
    small = {"space": {"/dev/shm": [64 << 20, 60 << 20]}}
    bare = BARE._replace(host="node1", nodes={"node2": {}, "node3": {}})
    container = CONTAINER._replace(host="node1", nodes={"node2": small, "node3": small, "node9": small})
    (cause,) = found(container, LATENCY, BETWEEN, bare=bare)
    assert cause.sentence == "on node2 and 1 more node(s): /dev/shm holds 64 MiB in the container, 11 GiB on the host"
    entry = explanation.entry(cause)
    assert explanation.took_effect(entry, bare, container._replace(nodes={"node2": {}}))
    assert not explanation.took_effect(entry, bare, container)
    # What every node has is said of none, whichever node a rank printed on. A name in a namespace says nothing.
    everywhere = container._replace(**small, nodes={"node2": small})
    here = container._replace(**small, nodes={name: {"space": CONTAINER.space} for name in ("node2", "node3")})
    for side, host, start in (
        (everywhere, "node1", ""),
        (everywhere, "node2", ""),
        (here, "node1", "on node1: "),
        (everywhere._replace(host="4f2a", nodes={"77b1": small}), "node1", ""),
    ):
        nodes = bare.nodes if side is here else {"node1": {}}
        cause = found(side, BETWEEN, bare=bare._replace(host=host, nodes=nodes))[0]
        assert cause.sentence.startswith(f"{start}/dev/shm holds")


# What experiments show.

CAUSE = {
    "rule": "variable",
    "about": "X",
    "sentence": "X=1 is set",
    "remedy": "unset it",
    "source": "a#1",
    "experiment": {"kind": UNSET, "value": "X"},
}
OTHER = {**CAUSE, "about": "Y", "sentence": "Y=1 is set", "experiment": None}


def tried(helps, rest, overhead=0.4, took_effect=True, more=None, **facts):
    metric = {"helps": helps, "rest": rest, "overhead": overhead, "interval": [-0.9, 1.8], "without": 34.0, "unit": "%"}
    metrics = {"rate": {**metric, "rounds": 3, **facts}, **(more or {})}
    return {**CAUSE, "result": {"name": "remedy1", "failed": "", "metrics": metrics, "took_effect": took_effect}}


def ended(count, runs, ended_well=5, **facts):
    result = {"name": "remedy1", "failed": "", "took_effect": True, "ended_well": ended_well, "metrics": {}, **facts}
    return {**CAUSE, "ended": [count, runs], "result": result}


@pytest.mark.parametrize(
    ("cause", "proof"),
    [
        (tried("fail", "pass"), "with X removed the overhead of rate is +0.4 (-0.9 to +1.8) %, and +34 % without"),
        (ended(3, 3), "with X removed all of 5 runs ended well, and 0 of 3 without"),
    ],
)
def test_a_proof_has_its_numbers_and_what_to_do(cause, proof):
    assert explanation.lines([cause, OTHER]) == ["the cause: X=1 is set", f"proven: {proof}", "do: unset it (a#1)"]
    assert explanation.is_proven(cause)
    assert explanation.summary([cause, OTHER]) == "the cause: X=1 is set; do: unset it (a#1)"


@pytest.mark.parametrize("rest", ["pass", "open"])
def test_a_script_around_the_runtime_is_shown_with_the_differences_that_it_may_make(rest):
    lines = explanation.lines([{**tried("fail", rest), "rule": causes.SCRIPT}, tried("pass", "fail"), OTHER])
    assert lines[-1] == "it differs in: Y=1 is set" and lines[1].startswith("proven: ") == (rest == "pass")


def test_what_is_not_proven_has_something_to_try():
    assert explanation.summary([CAUSE]) == "possible cause: X=1 is set; to try: unset it"
    assert explanation.summary([]) == ""


OPEN = "it explains {} % of it; whether it is all would take more rounds"


@pytest.mark.parametrize(
    ("rest", "overhead", "facts", "end"),
    [
        ("fail", 17.0, {"interval": [12.0, 20.0]}, "it explains 50 % of it"),
        ("inconclusive", 1.0, {}, OPEN.format(97)),
        ("fail", 1.0, {"interval": [0.5, 1.8]}, "it explains 97 % of it"),
        # As on the virtual cluster under load: the first rounds were still slow, and the later ones not.
        ("fail", -2.6, {"interval": [-61.0, 32.0], "without": 65.0}, OPEN.format(100)),
    ],
)
def test_a_part_is_told_as_a_part_and_whether_it_may_be_all(rest, overhead, facts, end):
    cause = tried("fail", rest, overhead, **facts)
    lines = explanation.lines([cause])
    assert (lines[0], lines[1].endswith(end)) == ("a cause: X=1 is set", True), lines
    assert not explanation.is_proven(cause) and "proven" not in "\n".join(lines)


DIFFERS = ["possible cause: X=1 is set", "to try: unset it"]
REFUTED = ["not explained; tried, and not the cause: X=1 is set"]
STILL_SLOW = {"other": tried("fail", "inconclusive")["result"]["metrics"]["rate"]}


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (tried("inconclusive", "pass"), None),
        (tried("inconclusive", "fail"), None),
        (tried("fail", "pass", more=STILL_SLOW), None),
        # It refutes only if it took the difference away.
        (tried("pass", "fail"), REFUTED),
        (tried("pass", "fail", took_effect=False), DIFFERS),
        # It ended well by itself, or too rarely for chance to be out of question.
        (ended(3, 4), DIFFERS),
        (ended(2, 2), DIFFERS),
        (ended(3, 3, ended_well=4), DIFFERS),
        (ended(3, 3, took_effect=False), DIFFERS),
        ({**CAUSE, "ended": [3, 3]}, DIFFERS),
        (ended(3, 3, failed="exit status 3"), REFUTED),
    ],
)
def test_nothing_is_proven_unless_it_helps_and_is_all(cause, expected):
    lines = explanation.lines([cause])
    assert expected is None or lines == expected
    assert not explanation.is_proven(cause) and "proven" not in "\n".join(lines)


def test_what_differs_besides_is_named_where_nothing_is_explained():
    assert explanation.lines([tried("pass", "fail"), OTHER]) == [
        "not explained; other differences: Y=1 is set",
        "to try: unset it",
        "tried, and not the cause: X=1 is set",
    ]
    assert explanation.lines([]) == []


def test_whether_a_remedy_took_effect_is_looked_up():
    assert explanation.took_effect(CAUSE, BARE, CONTAINER)
    assert not explanation.took_effect(CAUSE, BARE, with_variables(X="1"))
    assert not explanation.took_effect(CAUSE, BARE, None)
    small = CONTAINER._replace(**SMALL)
    entry = explanation.entry(found(small, TIME)[0])
    assert not explanation.took_effect(entry, BARE, small)
    assert explanation.took_effect(entry, BARE, CONTAINER)
    # Of what the runs used, their runs count.
    many, few = Use(10.0, 19.0, threads=64), Use(10.0, 19.0, threads=1)
    entry = explanation.entry(found(CONTAINER, SPEED, uses=(few, many))[0])
    remedied = with_variables(OMP_NUM_THREADS="1")
    assert explanation.took_effect(entry, BARE, remedied, (few, few))
    assert not explanation.took_effect(entry, BARE, remedied, (few, many))
    assert not explanation.took_effect(entry, BARE, remedied)


def test_a_cause_is_stored_with_its_remedy_and_its_result_and_none_is_twice():
    """By a job too, where a metric has no class of its own."""
    metric = SimpleNamespace(name="speed", measures=("computing",), compare="ratio")
    entries = explanation.stored(found(with_variables(OPENBLAS_CORETYPE="Prescott"), metric))
    assert json.loads(json.dumps(entries)) == entries
    (entry,) = entries
    assert [*entry] == ["rule", "about", "sentence", "remedy", "source", "kinds", "of_use", "stays", "experiment"]
    assert entry["experiment"] == {"kind": "unset", "value": "OPENBLAS_CORETYPE"}
    both = found(with_variables(OPENBLAS_CORETYPE="Prescott", MALLOC_ARENA_MAX="1"), TIME)
    first = explanation.stored(both)
    again = explanation.stored(both, [{**first[0], "result": {"name": "remedy1"}}])
    assert [entry["about"] for entry in again] == [entry["about"] for entry in first]
    assert [("result" in entry) for entry in again] == [True, False]


# Several containers.


def pairs(*sides):
    """Return the pairs of bare and containers: of each its name, and what else is not usual."""
    bare = {"name": "baseline", "label": "bare", "compared_with": None}
    usual = {"compared_with": "baseline", "contained": True}
    told = [bare, *({"name": name, "label": name, **usual, **facts} for name, facts in sides)]
    return pairs_of(Facts(facts_of(sides=told)).sides)


def test_what_a_successor_differs_in_is_said_with_both_names():
    _, pair = pairs(("old", {}), ("new", {"compared_with": "old"}))
    assert (pair.baseline.name, pair.subject.name, pair.is_only) == ("old", "new", False)
    named = pair.named(found(CONTAINER._replace(**SMALL, status={**BARE.status, "Nice": "19"}), TIME, bare=CONTAINER))
    assert [cause.sentence for cause in named] == [
        "/dev/shm holds 8 MiB in new, 11 GiB in old",
        "new's processes run at nice 19, those of old at 0",
    ]
    assert explanation.lines(explanation.stored(named))[0].startswith("new: possible cause: /dev/")


def test_each_of_several_containers_has_causes_of_its_own_and_an_only_one_needs_no_name():
    containers = [with_variables(UCX_TLS="tcp"), CONTAINER._replace(**SMALL)]
    named = [
        cause
        for pair, container in zip(pairs(("podman", {}), ("charliecloud", {})), containers)
        for cause in pair.named(found(container, BETWEEN))
    ]
    lines = explanation.lines(explanation.stored(named))
    assert lines[::2] == [
        "podman: possible cause: UCX_TLS=tcp is set in podman, and not on the host: it chooses how the fabric is used",
        "charliecloud: possible cause: /dev/shm holds 8 MiB in charliecloud, 11 GiB on the host",
    ]
    assert lines[3].startswith("charliecloud: to try: bind the host's /dev/shm")
    (pair,) = pairs(("subject", {}))
    causes = found(containers[0], TIME)
    assert pair.named(causes) == causes
    assert "side" not in explanation.stored(causes)[0]


# Remarks on what did no harm today.

HEALTHY = Observation(
    environment={"HOME": "/home/somebody", "TMPDIR": "/scratch"},
    limits={"Max locked memory": "unlimited"},
    space={"/dev/shm": [64 << 20, 60 << 20]},
    # Some runtimes promise a home that is not there.
    directories={"/scratch": "usable", "/home/somebody": "unwritable"},
    devices=["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"],
    kernel={"ptrace_scope": "1"},
)


def test_a_healthy_node_and_what_was_not_recorded_have_no_remark():
    without = HEALTHY._replace(limits={"Max locked memory": "65536"}, devices=[])
    assert rules.remarks({"bare": HEALTHY, "generic": None, "other": Observation(), "no fabric": without}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"limits": {"Max locked memory": "65536"}}, "only 64 KiB of memory may be locked on a node with InfiniBand"),
        ({"space": {"/dev/shm": [8 << 30, 1 << 20]}}, "/dev/shm has 1 MiB free of 8 GiB"),
        ({"kernel": {"ptrace_scope": "2"}}, "kernel.yama.ptrace_scope is 2"),
        ({"directories": {"/scratch": "missing"}}, "TMPDIR is /scratch, which is missing"),
    ],
)
def test_what_is_wrong_is_said_once_with_the_sides_and_nodes(change, said):
    wrong = HEALTHY._replace(**change)
    elsewhere = HEALTHY._replace(host="node1", nodes={"node2": change, "node3": {}})
    for seen, start in (
        ({"bare": HEALTHY, "generic": wrong}, "generic"),
        ({"bare": wrong, "generic": wrong}, "bare and generic"),
        ({"bare": elsewhere, "generic": elsewhere}, "bare on node2 and generic on node2"),
        # What the first node has too is said once.
        ({"bare": elsewhere._replace(**change)}, "bare"),
    ):
        (remark,) = rules.remarks(seen)
        assert remark.startswith(f"{start}: {said}")


#: Attributes of processes on a host, and in a container that differs in all of them.
USUAL = {"Umask": "0022", "Timer_slack": "50", "Disk_priority": "none", "Oom_score": "0", "Personality": "00000000"}
USUAL["Memory_policy"] = "default"
UNUSUAL = {"Umask": "0077", "Timer_slack": "5000", "Disk_priority": "idle", "Oom_score": "1000"}
UNUSUAL.update(Personality="00000008", Memory_policy="interleave:0")


def test_attributes_of_processes_are_named_and_taken_back_before_the_program():
    bare = BARE._replace(status=USUAL)
    inside = bare._replace(status=UNUSUAL)
    found_causes = found(inside, TIME, bare=bare)
    # This one slows nothing, and ends runs.
    found_causes += [cause for cause in explanation.causes_of_end(bare, inside, USED) if not cause.kinds]
    assert {cause.sentence for cause in found_causes} == {
        "the umask is 0077 in the container, 0022 on the host",
        "the disk's priority (ionice) is idle in the container, none on the host",
        "timers of the container's processes may be 5000 ns late (timer slack), those of the host 50",
        "oom_score_adj is 1000 in the container, 0 on the host: of all processes the kernel ends the highest first if "
        "memory is short",
        "the kernel's personality (setarch) is 00000008 in the container, 00000000 on the host",
        "the memory policy (NUMA) is interleave:0 in the container, default on the host",
    }
    program = ["sh", "-c", "umask; cat /proc/$$/timerslack_ns; ionice -p $$; cat /proc/self/personality"]
    program[-1] += "; cat /proc/self/oom_score_adj"
    spoilt = ["linux32", "choom", "-n", "100", "--", "sh", "-c"]
    spoilt += ['umask 077; echo 5000 >/proc/self/timerslack_ns; exec ionice -c 3 "$@"', "sh"]
    before = [word for cause in found_causes if cause.change for word in shlex.split(cause.change.value)]
    ran = subprocess.run([*spoilt, *program], stdout=subprocess.PIPE, text=True).stdout
    assert ran == "0077\n5000\nidle\n00000008\n100\n"
    ran = subprocess.run([*spoilt, *before, *program], stdout=subprocess.PIPE, text=True).stdout
    assert ran == "0022\n50\nnone: prio 0\n00000000\n0\n"


def test_another_name_of_the_processor_is_a_personality_and_no_emulator():
    bare = BARE._replace(machine="x86_64", status=USUAL)
    inside = bare._replace(machine="i686", status={**USUAL, "Personality": "00000008"})
    assert [cause.rule for cause in found(inside, TIME, bare=bare)] == ["attribute"]
    assert [cause.rule for cause in found(bare._replace(machine="aarch64"), TIME, bare=bare)] == ["processor"]


#: Libraries of a run over InfiniBand, as /proc/<pid>/maps has them: of rdma-core 44 in an image, of OFED on the host.
IN_IMAGE = ["libibverbs.so.1.14.44.0", "libibverbs/libmlx5-rdmav34.so", "libmlx5.so.1.24.44.0", "libucp.so.0.0.0"]
ON_HOST = ["libibverbs.so.1.8.28.0", "libmlx5.so.1.11.28.0", "libucp.so.0.0.0"]


@pytest.mark.parametrize(
    ("inside", "opened", "said"),
    [
        (
            IN_IMAGE,
            True,
            "versions differ on a fabric: libibverbs 1.14.44.0 and libmlx5 1.24.44.0 in the container, "
            "libibverbs 1.8.28.0 and libmlx5 1.11.28.0 on the host, with mlx5_0 (mlx5_core 5.8-1.0.1)",
        ),
        (ON_HOST, True, None),
        # Another rule names a library that only one side has loaded.
        (["libibverbs.so.1.8.28.0"], True, None),
        # Without an adapter nothing goes through them.
        (IN_IMAGE, False, None),
    ],
)
def test_other_versions_of_a_fabrics_libraries_are_named_and_never_called_the_cause(tmp_path, inside, opened, said):
    """MIPT section 3: HPL was 60 times slower with other versions, and no basic check showed it."""
    verbs, card = tmp_path / "sys/class/infiniband_verbs/uverbs0", tmp_path / "sys/class/infiniband/mlx5_0/device"
    for directory in (verbs, card, tmp_path / "sys/module/mlx5_core"):
        directory.mkdir(parents=True)
    (verbs / "ibdev").write_text("mlx5_0\n")
    (card / "driver").symlink_to("../../../bus/pci/drivers/mlx5_core")
    (tmp_path / "sys/module/mlx5_core/version").write_text("5.8-1.0.1\n")
    devices = [run_observation.adapter("/dev/infiniband/uverbs0", tmp_path)]

    def use(names):
        rows = (f"7f00-7f01 r-xp 00000000 fd:01 7 /usr/lib64/{name}\n" for name in names)
        (tmp_path / "maps").write_text("".join(rows))
        libraries, _ = run_observation.mapped(tmp_path)
        return Use(10.0, 19.0, libraries=frozenset(libraries), devices=frozenset(devices if opened else []))

    named = [
        cause for cause in found(CONTAINER, LATENCY, uses=(use(ON_HOST), use(inside))) if cause.about == "libraries"
    ]
    assert [cause.sentence for cause in named] == ([said] if said else [])
    assert all(cause.change is None for cause in named)


def test_an_unknown_device_of_a_fabric_is_named_by_its_path(tmp_path):
    (tmp_path / "sys/class/hfi1/hfi1_0/device").mkdir(parents=True)
    (tmp_path / "sys/class/hfi1/hfi1_0/device/driver").symlink_to("/bus/hfi1")
    named = [run_observation.adapter(f"/dev/hfi1_{number}", tmp_path) for number in (0, 1)]
    assert named == ["hfi1_0 (hfi1)", "/dev/hfi1_1"]


def test_another_working_directory_is_named_whatever_its_path_and_left_before_the_program():
    bare = BARE._replace(status={"Directory": "7 /stage/here"})
    assert found(bare._replace(status={"Directory": "7 /rfm_workdir"}), TIME, bare=bare) == []
    inside = bare._replace(status={"Directory": "2 /tmp"})
    (cause,) = explanation.causes_of_end(bare, inside, USED, 1)
    assert cause.sentence == "programs start in /tmp in the container, and not in the directory of the job"
    assert shlex.split(cause.change.value) == ["sh", "-c", f'cd {WORKDIR} && exec "$@"', "sh"]
    entry = explanation.entry(cause)
    assert explanation.took_effect(entry, bare, bare) and not explanation.took_effect(entry, bare, inside)
    (cause,) = found(inside._replace(set_by={DIRECTORY: "APPTAINER_CWD"}), TIME, bare=bare)
    assert cause.change == Change(HIDE, "APPTAINER_CWD") and "/tmp in the container by APPTAINER_CWD" in cause.sentence


def test_a_script_of_the_image_is_named_for_starts_and_taken_back_by_nothing_bound_over_it():
    path = "/.singularity.d/env/90-environment.sh"
    (cause,) = found(CONTAINER._replace(hooks=[path]), START)
    assert cause.sentence == f"{path} runs at each start of the container"
    assert cause.change == Change(BIND, f"/dev/null:{path}")
    assert found(CONTAINER._replace(hooks=[path]), TIME) == []


def test_what_cannot_be_taken_back_is_named_as_what_differs():
    (cause,) = found(CONTAINER._replace(mounts={"/usr/bin/seq": ["ext4", "/dev/vda", "rw"]}), TIME)
    assert cause.sentence.startswith("/usr/bin/seq of the image is hidden by what is") and cause.change is None


def test_the_jobs_own_directory_hides_nothing_of_the_image():
    bare = BARE._replace(status={"Directory": "7 /opt/stage/job"})
    inside = bare._replace(mounts={"/opt/stage/job": ["ext4", "/dev/vda", "rw"]})
    assert found(inside, TIME, bare=bare) == []
    (cause,) = found(bare._replace(mounts={"/opt/tree": ["ext4", "/dev/vda", "rw"]}), TIME, bare=bare)
    assert cause.sentence.startswith("/opt/tree of the image is hidden")


#: What differs by less than a person reads of it.
ALIKE = [{"space": {"/dev/shm": [(8 << 20) + 1, 1]}}, {"libc": "glibc 2.36-9"}, {"limits": {"Max open files": "1025"}}]
USED_ALIKE = [{"memory_limit": (2 << 30) + 1, "memory": 1.5 * 2**30}, {"libraries": frozenset(["/opt/libmpi.so.40.1"])}]


def test_a_cause_that_does_not_differ_between_the_sides_is_never_named(monkeypatch):
    """No sentence has the same value for both, whatever they see and use: a version that is the same is no mismatch."""
    words = []

    def cause(rule, change=None, *, made=causes.Rule.cause, **values):
        words.append((rule.title, str(values.get("container")), str(values.get("host"))))
        return made(rule, change, **values)

    monkeypatch.setattr(causes.Rule, "cause", cause)
    seen = [CONTAINER._replace(**facts) for facts in [{}, *(facts for facts, *_ in SEEN), *ALIKE]]
    used = [BUSY._replace(**facts) for facts in [{}, *(facts for facts, *_ in OF_RUNS), *USED_ALIKE]]
    for side in seen:
        assert explanation.causes(side, side, USED, [TIME, SPEED, BETWEEN, FILES, START]) == []
        assert explanation.causes_of_end(side, side, USED) == halving.kinds_of(side, side, {}, {}) == []
    for use in used:
        assert explanation.causes(BARE, BARE, (use, use), [TIME, FILES]) == []
    assert words == []
    for bare, container in itertools.permutations(seen, 2):
        explanation.causes(bare, container, USED, [TIME])
    for uses in itertools.permutations(used, 2):
        explanation.causes(BARE, CONTAINER, uses, [TIME])
    assert words and [each for each in words if "None" not in each and each[1] == each[2]] == []
