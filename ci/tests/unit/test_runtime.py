"""The container runtime: what a node's own says that it can do, and how an image becomes one that it runs."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS, entry_of, write_program
from containercheck.check.variants import VariantSides
from containercheck.job import runtime_start
from containercheck.job.container_runtimes import by_name
from containercheck.sides.sides import Candidate
from containercheck.site.sites import Site
from containercheck.software import images
from containercheck.software.provision import Misconfigured, Unavailable, Wanted

SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
#: Images are of this release: no node is asked.
ELSEWHERE = replace(SITE, release="trixie")
HERE = replace(ELSEWHERE, is_here=True)
WANTED = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Apptainer"))
DOCKER, PODMAN = "Docker version 20.10.24+dfsg1, build 297e128", "podman version 4.3.1"
ENGINE = ["--env", "CONTAINERCHECK_RUN"]


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """Put a runtime on the PATH that answers these questions, and can do nothing; return its path.

    The user is root, and may mount.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(runtime_start, "is_crippled_root", lambda: False)

    def make(name="apptainer", options="--userns --bind", says=None, rootless="true"):
        says = says or f"{name} version 9.9"
        answers = (
            f"case \"$*\" in --version) echo '{says}' ;; info*) echo {rootless} ;; *--help*) echo {options} ;; esac"
        )
        write_program(programs / name, answers)
        return str(programs / name)

    return make


def options_of(command, ranks):
    """Return the options of a command, by its own answers."""
    return runtime_start.options(runtime_start.identify(command)[0], command, ranks)


def ask(directory, command, side="subject", ranks=1, nodes=1, **facts):
    """Run the program of the job that finds the runtime on a node."""
    start = {"way": "", "ranks": ranks, "own_environment": False, "file": "", "copy_to": "", "required_option": ""}
    container = {"command": command, "image": "x", "start": {**start, **facts}, "ranks": {"nodes": nodes}}
    stored = {side: {"commands": {}, "container": container}}
    (directory / "commands.json").write_text(json.dumps(stored))
    words = [sys.executable, PROGRAMS, "runtime", side]
    return subprocess.run(words, cwd=directory, text=True, capture_output=True, timeout=120)


# Options


@pytest.mark.parametrize(
    ("name", "says", "options", "ranks", "expected"),
    [
        ("apptainer", None, "--userns --sharens", 2, ["--sharens"]),
        # Older than 1.3; and nobody to share a namespace with.
        ("singularity", None, "--userns", 2, []),
        ("apptainer", None, "--userns --sharens", 1, []),
        # It is known by its answer, and not by the name of its file.
        ("run-image", "INFO: of the centre\nsingularity version 3.8.7", "--sharens", 2, ["--sharens"]),
        ("docker", PODMAN, "--sharens", 2, ["--env-host", *ENGINE]),
        ("docker-1.4", DOCKER, "--sharens", 2, ENGINE),
        ("sarus", "1.6.4", "--userns --sharens", 2, []),
    ],
)
def test_a_runtime_gets_the_options_that_it_says_it_has(on_path, monkeypatch, name, says, options, ranks, expected):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = on_path(name, options, says)
    assert options_of(command, ranks) == options_of(name, ranks) == expected
    # What hands on no environment is kept from the host's.
    hidden = runtime_start.hidden(runtime_start.identify(command)[0], ["LD_LIBRARY_PATH"], True)
    assert bool(hidden) == (name.startswith(("docker", "sarus")))


def test_a_root_that_may_not_mount_runs_images_in_a_user_namespace(on_path, monkeypatch):
    on_path(options="--userns --sharens")
    monkeypatch.setattr(runtime_start, "is_crippled_root", lambda: True)
    assert options_of("apptainer", 2) == ["--userns", "--sharens"]
    on_path("docker", options="--userns --sharens", says=DOCKER)
    assert options_of("docker", 2) == ENGINE


@pytest.mark.parametrize(
    ("says", "rootless", "number", "expected"),
    [
        # Of a member of its group; for root, the container's root is the same user.
        (DOCKER, "false", 1000, ["--user=1000:100"]),
        (DOCKER, "false", 0, []),
        # Without root, the container's root is the user outside.
        (DOCKER, "true", 1000, []),
        # A PMIx server refuses ranks of another user; root's engine refuses keep-id.
        (PODMAN, "true", 1000, ["--userns=keep-id"]),
        (PODMAN, "true", 0, []),
        (PODMAN, "false", 1000, ["--user=1000:100"]),
    ],
)
def test_an_engine_runs_programs_as_its_user(on_path, monkeypatch, says, rootless, number, expected):
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    command = on_path("docker", says=says, rootless=rootless)
    assert [word for word in options_of(command, 2) if "--user" in word] == expected


@pytest.mark.parametrize(
    ("command", "way", "said"),
    [
        ("no-such-runtime", "", "error: no-such-runtime is not on the PATH of "),
        ("podman", "unpacked", "has no way unpacked to run images: podman version 4.3.1"),
    ],
)
def test_a_runtime_that_cannot_run_images_is_one_line(on_path, tmp_path, command, way, said):
    on_path("podman", says=PODMAN)
    done = ask(tmp_path, command, way=way)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("says", "rootless", "nodes", "refused"),
    [(DOCKER, "true", 2, True), (DOCKER, "true", 1, False), (DOCKER, "false", 2, False), (PODMAN, "true", 2, False)],
)
def test_an_engine_whose_network_other_nodes_do_not_reach_is_one_line(
    on_path, tmp_path, says, rootless, nodes, refused
):
    done = ask(tmp_path, on_path("docker", says=says, rootless=rootless), nodes=nodes)
    assert done.returncode == int(refused), done.stderr
    assert not refused or (done.stderr.count("\n"), "docker on" in done.stderr) == (1, True)


# What a side keeps, and what is kept from it


@pytest.mark.parametrize(("own_environment", "kept_out"), [(True, slice(None)), (False, slice(5, None))])
def test_settings_of_the_host_are_kept_out_of_a_container_with_an_mpi_of_its_own(own_environment, kept_out):
    """Apptainer keeps directories of libraries out itself. With the host's MPI, its settings are the container's."""
    names = ["FI_PROVIDER", "LD_PRELOAD", "OMPI_MCA_btl", "PYTHONPATH", "UCX_TLS", "LD_LIBRARY_PATH"]
    others = ["FILES", "FIRST", "LDAP_SERVER", "PMIX_MCA_gds", "PMIX_RANK", "SLURM_JOB_ID", "OMP_NUM_THREADS", "UCXTRA"]
    hidden = functools.partial(runtime_start.hidden, names=[*names, *others], own_environment=own_environment)
    assert hidden(by_name("Sarus")) == sorted(names[kept_out])
    assert hidden(by_name("Apptainer")) == sorted(name for name in names[kept_out] if name != "LD_LIBRARY_PATH")


def test_each_side_has_files_of_its_own_with_options_and_version(on_path, tmp_path, monkeypatch):
    for name in [name for name in os.environ if runtime_start.OF_THE_HOST.match(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UCX_TLS", "rc")
    old, new = on_path("apptainer", "--bind"), on_path("singularity", "--sharens")
    for name, command, is_own in (("baseline", old, False), ("subject", new, True)):
        result = ask(tmp_path, command, name, ranks=2, own_environment=is_own)
        assert result.returncode == 0, result.stderr
    launched, known = (
        [json.loads((tmp_path / f"{name}.{kind}.json").read_text()) for name in ("baseline", "subject")]
        for kind in ("launch", "runtime")
    )
    # What is kept out stands before the runtime.
    assert [words["start"] for words in launched] == [[], ["env", "-uUCX_TLS"]]
    assert ["--sharens" in words["options"] for words in launched] == [False, True]
    assert known == [
        {"command": old, "version": "apptainer version 9.9", "configuration": {}},
        {"command": new, "version": "singularity version 9.9", "configuration": {}},
    ]


@pytest.mark.parametrize(
    ("partition", "command", "expected"),
    [("Apptainer", "podman", "Podman"), ("Podman", "podman", None), ("Singularity", "apptainer", None)],
)
def test_versions_of_another_runtime_than_the_partitions_are_started_with_their_own_words(partition, command, expected):
    facts = {"compared_images": {}, "runtime": by_name(partition)}
    case = SimpleNamespace(runtimes={name: f"/opt/{name}/{command}" for name in ("old", "new")}, **facts)
    case._has_other_words = functools.partial(VariantSides._has_other_words, case)
    for candidate in VariantSides.candidates(case):
        assert (candidate.runtime and candidate.runtime.name, candidate.against_bare) == (expected, False)


# Images: pulled, ready, built, and converted for a runtime that builds none


def of(runtime, **facts):
    return replace(WANTED, runtime=by_name(runtime), **facts)


def with_image(name):
    return replace(SITE, images={"hpcc": str(name)})


def test_a_ready_image_is_pulled_or_linked_in_the_build_step(tmp_path):
    assert images.provide_image(Wanted("HPCC", "hpcc"), SITE).image is None
    found = images.provide_image(WANTED, with_image("oras://registry.example/hpcc@sha256:abc"))
    pull = entry_of(found.build[0])
    assert (found.image, pull["link"], pull["reference"]) == (
        "image.sif",
        "image.sif",
        "oras://registry.example/hpcc@sha256:abc",
    )
    assert (pull["kind"], pull["runtime"], pull["architecture"]) == ("pull", "apptainer", "x86_64")
    file = tmp_path / "hpcc.sif"
    with pytest.raises(Misconfigured, match=f"no image: {file}, which the site's extras, or --image, name for hpcc, d"):
        images.provide_image(WANTED, with_image(file))
    file.touch()
    (link,) = images.provide_image(WANTED, with_image(file)).build
    assert entry_of(link) == {"kind": "ready", "image": str(file), "architecture": "x86_64", "link": "image.sif"}
    ready, convert = images.provide_image(of("Podman"), with_image(file)).build
    assert entry_of(ready)["image"] == str(file) and entry_of(convert)["source"] == "image.sif"
    # What is in a registry is pulled by the runtime itself, on each node.
    for more, words in (({}, " pull"), ({"nodes": 2, "each_node": True}, " each-node pull")):
        (pull,) = images.provide_image(of("Podman", **more), with_image("registry.example/hpcc@sha256:0")).activate
        assert f"{words} " in pull and entry_of(pull)["runtime"] == "podman" and ("each-node" in pull) == bool(more)


def test_an_image_is_built_for_the_partitions_architecture(on_path):
    on_path()
    (command,) = images.provide_image(WANTED, replace(ELSEWHERE, architecture="aarch64")).build
    assert entry_of(command)["architecture"] == "aarch64"
    with pytest.raises(Unavailable, match="architecture unknown: write 'arch' of cluster:compute"):
        images.provide_image(WANTED, replace(ELSEWHERE, architecture=None))
    with pytest.raises(Misconfigured, match="there is no definition file images/none.def"):
        images.provide_image(replace(WANTED, recipe="none"), ELSEWHERE)
    reason = "shifter cannot build hpcc; name a ready one in the site's extras"
    with pytest.raises(Unavailable, match=reason):
        images.provide_image(of("Shifter"), SITE)


@pytest.mark.parametrize("runtime", ["Podman", "Docker"])
def test_an_image_is_built_by_another_runtime_and_loaded_into_the_storage_of_the_nodes(on_path, runtime):
    on_path()
    wanted, name = of(runtime, nodes=2, each_node=True), runtime.lower()
    found = images.provide_image(wanted, ELSEWHERE)
    build, convert = map(entry_of, found.build)
    assert (build["name"], build["link"], build["runtime"]) == ("hpcc", "image.sif", "apptainer")
    assert (convert["source"], convert["builder"], convert["runtime"]) == ("image.sif", "apptainer", name)
    assert (convert["link"], convert["loads"], found.image) == ("image.oci", False, "{{content of image.name}}")
    (load,) = found.activate
    assert load.endswith(f" load image.oci {name} || exit 1")
    assert "each-node" in load
    with pytest.raises(
        Unavailable, match=f"{name} keeps images on each node, and only Slurm, or mpirun over ssh .* brings them to"
    ):
        images.provide_image(replace(wanted, each_node=False), ELSEWHERE)


def test_an_image_is_converted_in_the_build_step_where_jobs_run_here(on_path):
    on_path()
    on_path("podman", says=PODMAN)
    found = images.provide_image(of("Podman"), HERE)
    convert = entry_of(found.build[-1])
    assert found.activate == () and (convert["link"], convert["loads"]) == ("image.oci", True)
    on_path("ch-run", says="0.31")
    found = images.provide_image(of("Charliecloud"), HERE)
    assert (found.image, found.activate) == ("image.tree", ())
    several = (Candidate("apptainer", runtime=by_name("Apptainer")), Candidate("podman", runtime=by_name("Podman")))
    for wanted in (of("Podman", copied=True), replace(WANTED, candidates=several, copied=True)):
        with pytest.raises(Unavailable, match="keeps images in its own way"):
            images.provide_image(wanted, HERE)


def test_each_of_several_runtimes_has_its_image_and_each_mpi_its_build(on_path, monkeypatch):
    # No podman is on the PATH: that of the candidate lies elsewhere.
    monkeypatch.setenv("PATH", os.path.dirname(on_path()))
    unpacked = by_name("Apptainer").in_way("unpacked")
    several = (
        Candidate("file", "/opt/apptainer", by_name("Apptainer"), against_bare=True),
        Candidate("unpacked", "/opt/apptainer", unpacked, against_bare=True),
        Candidate("rootful", "/opt/podman", by_name("Podman"), against_bare=True),
    )
    found = images.provide_image(replace(WANTED, candidates=several), HERE)
    loaded = "{{content of rootful.image.name}}"
    assert found.images == {"file": "file.image.sif", "unpacked": "unpacked.image.tree", "rootful": loaded}
    entries = {entry["link"]: entry for entry in map(entry_of, found.build)}
    convert = entries["unpacked.image.tree"]
    assert (convert["source"], convert["builder"]) == ("unpacked.image.sif", "apptainer")
    assert (convert["runtime"], convert["way"]) == ("apptainer", "unpacked")
    # Another podman may have another storage.
    load = entries["rootful.image.oci"]
    assert (load["runtime"], load["command"]) == ("podman", "/opt/podman")
    # Two MPIs are not compared by the site's ready image and one that is built here.
    both = tuple(Candidate(family, mpi=family) for family in ("openmpi", "mpich"))
    site = replace(ELSEWHERE, images={"hpcc": "oras://registry/hpcc"})
    built = images.provide_image(replace(WANTED, candidates=both), site).build
    assert [entry_of(command)["family"] for command in built] == ["openmpi", "mpich"]
