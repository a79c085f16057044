"""The container runtime: what a node's own says that it can do, and where images come from."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY, entry_of, write_program
from containercheck.check.variants import VariantSides
from containercheck.job import runtime_start
from containercheck.job.build import image_convert
from containercheck.job.container_runtimes import by_name
from containercheck.sides.sides import Candidate
from containercheck.site.sites import Site
from containercheck.software import images
from containercheck.software.provision import Misconfigured, Unavailable, Wanted

SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
WANTED = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Apptainer"))


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """Put a runtime on the PATH that says what it is told to, and can do nothing."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(runtime_start, "is_crippled_root", lambda: False)

    def make(name="apptainer", options="--userns --bind", says=None):
        program = programs / name
        answers = {"--version": says or f"{name} version 9.9", "exec --help": options}
        lines = [f'[ "$*" != "{words}" ] || echo {answer}' for words, answer in answers.items()]
        program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        program.chmod(0o755)
        return str(program)

    return make


def options_of(command, ranks):
    """Return the options for what a command is."""
    return runtime_start.options(runtime_start.identify(command)[0], command, ranks)


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
@pytest.mark.parametrize(
    ("options", "ranks", "expected"),
    [
        ("--userns --sharens", 2, ["--sharens"]),
        # Older than 1.3.
        ("--userns", 2, []),
        # Nobody to share with.
        ("--userns --sharens", 1, []),
        ("--userns --sharens", 0, []),
    ],
)
def test_the_namespace_is_shared_by_ranks_where_the_runtime_knows_how(on_path, name, options, ranks, expected):
    on_path(name, options)
    assert options_of(name, ranks) == expected


def test_the_configuration_is_read_from_the_file_that_the_runtime_names(tmp_path, monkeypatch):
    (tmp_path / "apptainer.conf").write_text(
        "# bind path = /x\nbind path = /etc/hosts\nbind path = /a\nmount tmp = yes \n"
    )
    said = f"PREFIX=/usr\nAPPTAINER_CONF_FILE={tmp_path}/apptainer.conf\n"
    monkeypatch.setattr(runtime_start.processes, "output_of", lambda command: said)
    apptainer = by_name("Apptainer")
    assert runtime_start.configuration(apptainer, "/opt/a") == {"bind path": "/etc/hosts, /a", "mount tmp": "yes"}
    assert runtime_start.configuration(by_name("Docker"), "docker") == {}
    (tmp_path / "apptainer.conf").unlink()
    assert runtime_start.configuration(apptainer, "apptainer") == {}


def test_a_runtime_by_its_path_is_asked_like_any_other(on_path):
    assert options_of(on_path(options="--sharens"), 4) == ["--sharens"]


@pytest.mark.parametrize(
    ("name", "says", "expected"),
    [
        ("apptainer-1.4", "apptainer version 1.4.5", ["--sharens"]),
        ("run-image", "singularity-ce version 4.1.0-focal", ["--sharens"]),
        ("run-image", "'INFO: of the centre\nsingularity version 3.8.7'", ["--sharens"]),
        ("run-image", "podman version 4.3.1", ["--env-host", "--env", "CONTAINERCHECK_RUN"]),
        # A docker that is Podman.
        ("docker", "podman version 4.3.1", ["--env-host", "--env", "CONTAINERCHECK_RUN"]),
        ("docker-1.4", "Docker version 24.0.7, build afdd53b", ["--env", "CONTAINERCHECK_RUN"]),
    ],
)
def test_a_runtime_is_known_by_what_it_says_of_itself(on_path, monkeypatch, name, says, expected):
    """And not by what its file is called."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = on_path(name, "--sharens", says)
    assert options_of(command, 2) == expected
    hidden = runtime_start.hidden(runtime_start.identify(command)[0], ["LD_LIBRARY_PATH"], True)
    assert bool(hidden) == (expected != ["--sharens"])


def test_a_root_that_may_not_mount_runs_images_in_a_user_namespace(on_path, monkeypatch):
    on_path(options="--userns --sharens")
    monkeypatch.setattr(runtime_start, "is_crippled_root", lambda: True)
    assert options_of("apptainer", 1) == ["--userns"]
    assert options_of("apptainer", 2) == ["--userns", "--sharens"]


@pytest.mark.parametrize(
    ("way", "root", "user"),
    [
        ("unpacked", ["--userns"], []),
        ("fuse", ["--userns"], ["--userns"]),
        # Neither would mount anything in a namespace of its own.
        ("kernel", ["--no-privs"], []),
    ],
)
def test_each_way_to_run_images_has_its_options(on_path, monkeypatch, way, root, user):
    on_path()
    runtime = by_name("Apptainer").in_way(way)
    for number, expected in ((0, root), (1000, user)):
        monkeypatch.setattr(os, "geteuid", lambda number=number: number)
        monkeypatch.setattr(runtime_start, "is_crippled_root", lambda number=number: number == 0)
        assert runtime_start.options(runtime, "apptainer", 1) == expected


def test_a_runtime_that_runs_no_images_in_a_way_is_one_line(on_path, tmp_path):
    command = [
        sys.executable,
        str(REPOSITORY / "checks" / "containercheck" / "job"),
        "runtime",
        "--ranks=0",
        "subject",
    ]
    on_path("podman", says="podman version 4.3.1")
    done = subprocess.run(
        [*command, "--command=podman", "--way=kernel"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and not done.stdout
    line = f"error: podman on {os.uname().nodename} has no way kernel to run images: podman version 4.3.1"
    assert done.stderr.splitlines() == [line]


def test_an_image_is_unpacked_for_a_runtime_that_could_run_the_file(on_path, monkeypatch):
    # No podman is on the PATH: that of the candidate lies elsewhere.
    monkeypatch.setenv("PATH", os.path.dirname(on_path()))
    here = Site("here:compute", True, "x86_64", 4, 0, release="trixie")
    unpacked = by_name("Apptainer").in_way("unpacked")
    several = (
        Candidate("file", "/opt/apptainer", by_name("Apptainer"), against_bare=True),
        Candidate("unpacked", "/opt/apptainer", unpacked, against_bare=True),
        Candidate("rootful", "/opt/podman", by_name("Podman"), against_bare=True),
    )
    found = images.provide_image(replace(WANTED, candidates=several), here)
    assert found.images == {
        "file": "file.image.sif",
        "unpacked": "unpacked.image.tree",
        "rootful": "{{content of rootful.image.name}}",
    }
    entries = {entry["link"]: entry for entry in map(entry_of, found.build)}
    convert = entries["unpacked.image.tree"]
    assert (convert["source"], convert["builder"]) == ("unpacked.image.sif", "apptainer")
    assert (convert["runtime"], convert["way"]) == ("apptainer", "unpacked")
    # Another podman may have another storage.
    load = entries["rootful.image.oci"]
    assert (load["runtime"], load["command"]) == ("podman", "/opt/podman")
    with pytest.raises(Unavailable, match="apptainer\\+unpacked keeps images in its own way"):
        images.provide_image(replace(WANTED, candidates=several[:2], copied=True), here)


@pytest.mark.parametrize(
    ("partition", "command", "expected"),
    [("Apptainer", "podman", "Podman"), ("Podman", "podman", None), ("Singularity", "apptainer", None)],
)
def test_versions_of_another_runtime_than_the_partitions_are_started_with_their_own_words(partition, command, expected):
    facts = {"compared_images": {}, "built_by_each": False, "runtime": by_name(partition)}
    case = SimpleNamespace(runtimes={name: f"/opt/{name}/{command}" for name in ("old", "new")}, **facts)
    case._has_other_words = functools.partial(VariantSides._has_other_words, case)
    for candidate in VariantSides.candidates(case):
        assert (candidate.runtime and candidate.runtime.name, candidate.against_bare) == (expected, False)


def test_other_runtimes_get_no_options_of_apptainers(on_path, monkeypatch):
    on_path("docker", options="--userns --sharens")
    monkeypatch.setattr(runtime_start, "is_crippled_root", lambda: True)
    # It starts the container by a daemon, which hands on what it is told to.
    assert options_of("docker", 2) == ["--env", "CONTAINERCHECK_RUN"]
    on_path("sarus", options="--userns --sharens", says="1.6.4")
    assert options_of("sarus", 2) == []


def test_podman_keeps_the_number_of_a_user_who_is_not_root(on_path, monkeypatch):
    """A PMIx server refuses ranks of another user."""
    command = on_path("podman", says="podman version 4.3.1")
    for number, expected in ((0, False), (1000, True)):
        monkeypatch.setattr(os, "geteuid", lambda number=number: number)
        assert ("--userns=keep-id" in options_of(command, 2)) == expected


def test_a_user_of_roots_podman_keeps_his_number_too(tmp_path, monkeypatch):
    """Root's engine refuses keep-id: `Error: keep-id is only supported in rootless mode` (Podman 4.3.1)."""
    command = tmp_path / "podman"
    write_program(command, "[ $1 = info ] && echo false || echo podman version 4.3.1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    words = options_of(str(command), 2)
    assert "--user=1000:100" in words and "--userns=keep-id" not in words


DOCKER = "Docker version 20.10.24+dfsg1, build 297e128"


@pytest.mark.parametrize(
    ("says", "answer", "number", "expected"),
    [
        # Of a member of its group; for root, the container's root is the same user.
        (DOCKER, "false", 1000, ["--user=1000:100"]),
        (DOCKER, "false", 0, []),
        # Without root, the container's root is the user outside.
        (DOCKER, "true", 1000, []),
        ("podman version 4.3.1", "true", 1000, ["--userns=keep-id"]),
        ("podman version 4.3.1", "false", 1000, ["--user=1000:100"]),
    ],
)
def test_docker_runs_programs_as_its_user(tmp_path, monkeypatch, says, answer, number, expected):
    command = tmp_path / "docker"
    write_program(command, f"[ $1 = info ] && echo {answer} || echo '{says}'")
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    assert [word for word in options_of(str(command), 2) if "--user" in word] == expected


@pytest.mark.parametrize(
    ("says", "answer", "refused"),
    [(DOCKER, "true", True), (DOCKER, "false", False), ("podman version 4.3.1", "true", False)],
)
def test_an_engine_without_root_is_refused_on_several_nodes_in_one_line(tmp_path, says, answer, refused):
    """Before any rank starts: Docker's network is then not the host's. Podman's is, under Docker's name too."""
    write_program(tmp_path / "docker", f"[ $1 = info ] && echo {answer} || echo '{says}'")
    for word, count in (("--several-nodes", int(refused)), ("--own-environment", 0)):
        done = ask(tmp_path, f"--command={tmp_path}/docker", "--ranks=2", word, "subject")
        assert done.returncode == count, done.stderr
        lines = [line for line in done.stderr.splitlines() if line]
        assert len(lines) == count
        assert all(
            re.search("runs without root, .* no network in common .* take .*docker.overlay", line) for line in lines
        )


def test_only_settings_of_the_hosts_are_kept_out():
    names = ["OMPI_MCA_btl", "UCX_TLS", "FI_PROVIDER", "LD_PRELOAD", "PYTHONPATH", "LD_LIBRARY_PATH"]
    others = ["FILES", "FIRST", "LDAP_SERVER", "PMIX_MCA_gds", "PMIX_RANK", "SLURM_JOB_ID", "OMP_NUM_THREADS", "UCXTRA"]
    assert runtime_start.hidden(by_name("Sarus"), [*names, *others], True) == sorted(names)
    assert runtime_start.hidden(by_name("Apptainer"), [*names, *others], True) == sorted(names[:-1])


def test_with_the_hosts_mpi_only_the_hosts_own_directories_are_kept_out():
    names = ["OMPI_MCA_btl", "UCX_TLS", "LD_PRELOAD", "LD_LIBRARY_PATH"]
    assert runtime_start.hidden(by_name("Sarus"), names, False) == ["LD_LIBRARY_PATH"]
    assert runtime_start.hidden(by_name("Apptainer"), names, False) == []


def ask(directory, *words):
    command = [sys.executable, str(REPOSITORY / "checks" / "containercheck" / "job"), "runtime", *words]
    return subprocess.run(command, cwd=directory, text=True, capture_output=True, timeout=120)


def test_each_side_has_files_of_its_own_with_options_and_version(on_path, tmp_path):
    old, new = on_path("apptainer", "--bind"), on_path("singularity", "--sharens")
    for name, command in (("baseline", old), ("subject", new)):
        result = ask(tmp_path, "--command", command, "--ranks=2", name)
        assert result.returncode == 0, result.stderr
    launched = [json.loads((tmp_path / f"{name}.launch.json").read_text()) for name in ("baseline", "subject")]
    assert [words["start"] for words in launched] == [[], []]
    assert ["--sharens" in words["options"] for words in launched] == [False, True]
    known = [json.loads((tmp_path / f"{name}.runtime.json").read_text()) for name in ("baseline", "subject")]
    assert known == [
        {"command": old, "version": "apptainer version 9.9", "configuration": {}},
        {"command": new, "version": "singularity version 9.9", "configuration": {}},
    ]


def test_what_is_kept_out_stands_before_the_runtime(on_path, tmp_path, monkeypatch):
    on_path()
    for name in list(os.environ):
        if runtime_start.OF_THE_HOST.match(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UCX_TLS", "rc")
    monkeypatch.setenv("LD_BIND_NOW", "1")
    ask(tmp_path, "--command=apptainer", "--ranks=1", "--own-environment", "subject")
    launched = json.loads((tmp_path / "subject.launch.json").read_text())
    assert launched["start"] == ["env", "-uLD_BIND_NOW", "-uUCX_TLS"]


def test_a_runtime_that_is_not_on_the_node_is_one_line(tmp_path):
    result = ask(tmp_path, "--command=no-such-runtime", "--ranks=1", "subject")
    assert result.returncode == 1
    assert result.stderr.startswith("error: no-such-runtime is not on the PATH of ")
    assert result.stderr.count("\n") == 1


def with_images(**ready):
    return Site("cluster:compute", False, "x86_64", 4, 0, images=ready)


@pytest.mark.parametrize("name", ["docker://registry.example/hpcc:1.5", "oras://registry.example/hpcc@sha256:abc"])
def test_an_image_in_a_registry_is_pulled_in_the_build_step(name):
    found = images.provide_image(WANTED, with_images(hpcc=name))
    assert found.image == "image.sif"
    entry = entry_of(found.build[0])
    assert (entry["kind"], entry["reference"], entry["link"]) == ("pull", name, "image.sif")
    assert (entry["runtime"], entry["architecture"]) == ("apptainer", "x86_64")


def test_an_image_is_converted_for_a_runtime_that_builds_none(on_path):
    """Built by the runtime that does, and then loaded into the storage of each node, or unpacked."""
    on_path()
    elsewhere = Site("cluster:compute", False, "x86_64", 4, 0, release="trixie")
    here = Site("here:compute", True, "x86_64", 4, 0, release="trixie")
    podman = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Podman"))
    found = images.provide_image(podman, elsewhere)
    build, convert = map(entry_of, found.build)
    assert (build["name"], build["link"], build["runtime"]) == ("hpcc", "image.sif", "apptainer")
    assert (convert["source"], convert["builder"], convert["runtime"]) == ("image.sif", "apptainer", "podman")
    assert (convert["link"], convert["loads"]) == ("image.oci", False)
    assert found.image == "{{content of image.name}}"
    (load,) = found.activate
    assert load.endswith(" load image.oci podman || exit 1")
    on_path("podman", says="podman version 4.3.1")
    found = images.provide_image(podman, here)
    convert = entry_of(found.build[-1])
    assert found.activate == () and (convert["link"], convert["loads"]) == ("image.oci", True)
    on_path("ch-run", says="0.31")
    found = images.provide_image(replace(podman, runtime=by_name("Charliecloud")), here)
    assert (found.image, found.activate) == ("image.tree", ())
    with pytest.raises(Unavailable, match="podman keeps images on each node, and only a job of Slurm's brings them to"):
        images.provide_image(replace(podman, nodes=2), elsewhere)
    (load,) = images.provide_image(replace(podman, nodes=2, each_node=True), elsewhere).activate
    assert load.endswith(" each-node load image.oci podman || exit 1")
    for wish in ({"unpacked": True}, {"copied": True}):
        with pytest.raises(Unavailable, match="keeps images in its own way"):
            images.provide_image(replace(podman, **wish), here)
        # Nor where it is one of several.
        several = (Candidate("apptainer", runtime=by_name("Apptainer")), Candidate("podman", runtime=by_name("Podman")))
        with pytest.raises(Unavailable, match="podman keeps images in its own way"):
            images.provide_image(replace(WANTED, candidates=several, **wish), here)


def test_a_ready_image_file_is_converted_too(on_path, tmp_path):
    on_path()
    (tmp_path / "hpcc.sif").touch()
    podman = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Podman"))
    ready, convert = images.provide_image(podman, with_images(hpcc=str(tmp_path / "hpcc.sif"))).build
    assert entry_of(ready)["image"] == f"{tmp_path}/hpcc.sif" and entry_of(convert)["source"] == "image.sif"
    # What is in a registry is pulled by the runtime itself.
    (pull,) = images.provide_image(podman, with_images(hpcc="registry.example/hpcc@sha256:0")).activate
    assert entry_of(pull)["runtime"] == "podman" and " each-node " not in pull
    two = replace(podman, nodes=2, each_node=True)
    (pull,) = images.provide_image(two, with_images(hpcc="registry.example/hpcc@sha256:0")).activate
    assert " each-node pull " in pull and entry_of(pull)["runtime"] == "podman"


def test_two_mpis_are_compared_by_images_of_one_build_each(on_path):
    """Not the site's ready image beside one that is built here, which would be another comparison."""
    on_path()
    both = tuple(Candidate(family, mpi=family) for family in ("openmpi", "mpich"))
    site = Site("cluster:compute", False, "x86_64", 4, 0, release="trixie", images={"hpcc": "oras://registry/hpcc"})
    built = images.provide_image(replace(WANTED, candidates=both), site).build
    assert [entry_of(command)["family"] for command in built] == ["openmpi", "mpich"]


def test_a_runtime_that_builds_no_images_needs_a_ready_one(on_path):
    shifter = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Shifter"))
    on_path()
    reason = "shifter cannot build hpcc, and only its gateway .* from a registry; name a ready one in the site's extras"
    with pytest.raises(Unavailable, match=reason):
        images.provide_image(shifter, SITE)


@pytest.mark.parametrize("name", ["Sarus", "Podman-HPC"])
def test_an_image_is_loaded_once_where_all_nodes_have_it_then(on_path, name):
    on_path()
    elsewhere = Site("cluster:compute", False, "x86_64", 4, 0, release="trixie")
    wanted = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name(name), nodes=2, each_node=True)
    found = images.provide_image(wanted, elsewhere)
    assert found.image == "{{content of image.name}}" and not entry_of(found.build[-1])["loads"]
    (load,) = found.activate
    assert load.endswith(f" load image.oci {name.lower()} || exit 1") and "each-node" not in load


def test_docker_gets_an_archive_of_the_recipes_image(on_path):
    on_path()
    elsewhere = Site("cluster:compute", False, "x86_64", 4, 0, release="trixie")
    docker = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Docker"), nodes=2)
    with pytest.raises(Unavailable, match="docker keeps images on each node, and only a job of Slurm's brings them to"):
        images.provide_image(docker, elsewhere)
    found = images.provide_image(replace(docker, each_node=True), elsewhere)
    convert = entry_of(found.build[-1])
    assert (convert["kind"], convert["builder"], convert["runtime"]) == ("convert", "apptainer", "docker")
    (load,) = found.activate
    assert load.endswith(" each-node load image.oci docker || exit 1")
    assert {image_convert.kind_for(by_name(name)) for name in ("Podman", "Docker")} == {image_convert.Archive}


def test_a_ready_image_is_linked_in_the_build_step(tmp_path):
    (tmp_path / "hpcc.sif").touch()
    found = images.provide_image(WANTED, with_images(hpcc=str(tmp_path / "hpcc.sif")))
    assert found.image == "image.sif"
    ready = {"image": f"{tmp_path}/hpcc.sif", "architecture": "x86_64", "link": "image.sif"}
    assert entry_of(found.build[0]) == {"kind": "ready", **ready}
    with pytest.raises(
        Misconfigured, match="no image: /nowhere.sif, which the site's extras, or --image, name for hpcc, does not"
    ):
        images.provide_image(WANTED, with_images(hpcc="/nowhere.sif"))


def test_an_image_is_built_for_the_partitions_architecture(on_path):
    on_path()
    arm = Site("cluster:arm", False, "aarch64", 4, 0, release="trixie")
    (command,) = images.provide_image(WANTED, arm).build
    assert entry_of(command)["architecture"] == "aarch64"
    with pytest.raises(Unavailable, match="architecture unknown: write 'arch' of cluster:compute"):
        images.provide_image(WANTED, Site("cluster:compute", False, None, 4, 0))
    with pytest.raises(Misconfigured, match="there is no definition file images/none.def"):
        images.provide_image(Wanted("X", "x", recipe="none", runtime=by_name("Apptainer")), arm)


def test_a_bare_check_needs_no_image():
    assert images.provide_image(Wanted("HPCC", "hpcc"), SITE).image is None
