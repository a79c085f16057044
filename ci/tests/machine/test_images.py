"""Images are built into the cache once, or not at all: with the real runtime, from a recipe that takes a second."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY, alive, entry_command, eventually, write_program
from containercheck.job import contract
from containercheck.job.build import cache, file_trees, image_files, machine
from containercheck.job.build.image_build import Image, Workshop

HERE = platform.machine()
RUNTIME = "apptainer" if shutil.which("apptainer") else "singularity"
RECIPE = (REPOSITORY / "ci/tests/programs/tiny.def").read_text()


@pytest.fixture
def recipes(tmp_path):
    directory = tmp_path / "images"
    directory.mkdir()
    (directory / "tiny.def").write_text(RECIPE)
    (tmp_path / "payload.txt").write_text("payload\n")
    return directory


def command_of(recipes, cache, name="tiny", **parts):
    """Return the command that builds an image; the parts replace those that it usually has."""
    usual = {"recipes": recipes, "images": cache, "jars": cache / "jars", "mirror": "none", "runtime": RUNTIME}
    usual = {**usual, "architecture": HERE, "release": "bookworm", "family": "openmpi"}
    return entry_command("image", name=name, link=recipes.parent / "image.sif", **{**usual, **parts})


def build(recipes, cache, name="tiny", **parts):
    """Build an image; the parts replace those that it usually has."""
    return run(command_of(recipes, cache, name, **parts))


def take(tmp_path, path, architecture=None):
    """Take a ready image."""
    return run(entry_command("ready", image=path, architecture=architecture, link=tmp_path / "image.sif"))


def key_of(recipes, name, architecture=HERE, release="bookworm", family="openmpi", **facts):
    return Image(Workshop(recipes, recipes, recipes, RUNTIME, architecture, release, family, **facts), name).key


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def recorded(directory):
    """Return what is written of an image, without what tells on a node whether it is the same file."""
    known = json.loads((directory / contract.IMAGE_RECORD).read_text())
    if known["sha256"]:
        assert known.pop("stamp") == file_trees.stamp_of(Path(known["path"]))
    return known


def images(cache):
    return sorted(path.name for path in cache.glob("*.sif"))


def test_an_image_is_built_once_and_what_it_is_is_written_beside_the_link(recipes, tmp_path):
    for words in ("built in", "never said"):
        result = build(recipes, tmp_path / "cache")
        assert result.returncode == 0, result.stderr
        assert (words in result.stdout) == (words == "built in")
        (image,) = (tmp_path / "cache").glob("*.sif")
        content = image.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        made = {"recipe": "tiny", "release": "bookworm", "mpi": "openmpi"}
        assert recorded(tmp_path) == {"path": str(image), "sha256": digest, "bytes": len(content), **made}
        assert (tmp_path / "image.sif").resolve() == image
        assert result.stdout.splitlines()[-1] == str(image)
    assert "built in" not in result.stdout


def test_what_an_image_is_made_of_counts_in_its_key_and_nothing_else(recipes, tmp_path):
    (recipes / "above.def").write_text("Bootstrap: localimage\nFrom: {{ BASE }}\n\n%arguments\n    BASE=tiny\n")
    keys = [key_of(recipes, "above"), key_of(recipes, "above", release="trixie")]
    # The recipe does not take an MPI; then it does, and in the third the set of instructions of the architecture.
    assert key_of(recipes, "above", family="mpich") == keys[0]
    (recipes / "tiny.def").write_text(f"{RECIPE}    Family {{{{ MPI }}}}\n")
    keys += [key_of(recipes, "above"), key_of(recipes, "above", family="mpich")]
    (recipes / "tiny.def").write_text(f"{RECIPE}    Set {{{{ SIMD }}}}\n")
    keys.append(key_of(recipes, "above"))
    (tmp_path / "payload.txt").write_text("other\n")
    keys.append(key_of(recipes, "above"))
    assert len({*keys}) == len(keys)


def test_the_recipe_gets_the_release_and_the_mpi(recipes, tmp_path):
    (recipes / "tiny.def").write_text(
        RECIPE.replace("    MIRROR=\n", "    MIRROR=\n    RELEASE=\n    MPI=\n") + "    Of {{ RELEASE }}-{{ MPI }}\n"
    )
    result = build(recipes, tmp_path / "cache", release="trixie", family="mpich")
    assert result.returncode == 0, result.stderr
    assert "Of: trixie-mpich\n" in run([RUNTIME, "inspect", "--labels", str(tmp_path / "image.sif")]).stdout
    assert (recorded(tmp_path)["release"], recorded(tmp_path)["mpi"]) == ("trixie", "mpich")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"family": "mpich"}, "tiny.def is for Open MPI only (hours), and the partition's MPI is MPICH: name a ready"),
        (
            {"release": "trixie"},
            "tiny.def is for bookworm only, which has its software, and the image would be of trixi",
        ),
        ({}, f"tiny is pinned for pdp11, and the partition is {HERE}: pin it"),
    ],
)
def test_a_recipe_for_others_is_a_skip(recipes, tmp_path, parts, reason):
    (recipes.parent / "requirements.txt").write_text("# only for: pdp11\nsix==1.16.0\n")
    text = RECIPE.replace("%files\n", "%files\n    requirements.txt /requirements.txt\n") + "    MPI openmpi (hours)\n"
    (recipes / "tiny.def").write_text(f"{text}    RELEASE bookworm\n")
    result = build(recipes, tmp_path / "cache", **parts)
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr.startswith(f"error: no image: {reason}") and result.stderr.count("\n") == 1
    assert images(tmp_path / "cache") == []


def fill(where, file, kilobytes=64):
    """Return the command that fills a file system in memory: it takes what is free, and more than there is."""
    size = f"size=$(($(df --output=used -k {where} | tail -1) + {kilobytes}))k"
    return f"mount -o remount,{size} {where}; cat /dev/zero >{file}; true"


@pytest.fixture
def file_system(tmp_path):
    """Mount a small file system; it takes root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    mounted = []

    def mount(options):
        place = tmp_path / "mounted"
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_in_place_of_a_read_only_cache_the_users_own_is_taken(recipes, file_system, tmp_path, monkeypatch):
    place = file_system("size=16m")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    own = tmp_path / "own" / "containercheck" / "images"
    result = build(recipes, place / "images")
    assert result.returncode == 0
    assert "Read-only file system" in result.stdout and f": it goes to {own}" in result.stdout
    assert len(images(own)) == 1
    # With no other cache it is one error.
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "own"))
    result = build(recipes, place / "images")
    assert result.returncode == 1
    assert "cannot be used: [Errno 30] Read-only file system" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_disk_that_fills_up_is_the_reason_and_nothing_is_taken_for_built(recipes, file_system, tmp_path):
    place = file_system("size=24m")
    (tmp_path / "payload.txt").write_bytes(os.urandom(20 << 20))
    result = build(recipes, place / "images")
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and "set caches in the site's extras" in result.stderr
    assert images(place / "images") == [] and not (tmp_path / "image.sif").exists()
    subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)
    assert build(recipes, place / "images").returncode == 0


def test_a_failing_build_says_why_and_where_its_log_is(recipes, tmp_path):
    (recipes / "tiny.def").write_text("Bootstrap: nowhere\n%arguments\n    MIRROR=\n%labels\n    Mirror {{ MIRROR }}\n")
    result = build(recipes, tmp_path / "cache")
    assert result.returncode == 1
    assert "building tiny failed: FATAL" in result.stderr
    assert "the whole log: " in result.stderr
    assert images(tmp_path / "cache") == []


def test_an_image_of_unsigned_packages_is_none(recipes, tmp_path):
    """Debootstrap only warns of it, and the runtime ends with success."""
    warning = "W: Cannot check Release signature; keyring file not available /usr/share/keyrings/none.gpg"
    answers = "[ $# -gt 2 ] || exec echo apptainer version 1.4.5"
    write_program(
        tmp_path / "apptainer", f"{answers}\necho '{warning}'\neval place=\\${{$(($# - 1))}}\necho an image >$place"
    )
    result = build(recipes, tmp_path / "cache", runtime=str(tmp_path / "apptainer"))
    assert "building tiny failed: its packages' signatures were not checked" in result.stderr
    assert (result.returncode, images(tmp_path / "cache")) == (1, [])


def test_without_the_keyring_no_debian_is_installed(recipes, tmp_path, monkeypatch):
    (recipes / "tiny.def").write_text("Bootstrap: debootstrap\nOSVersion: bookworm\nMirrorURL: none\n")
    workshop = Workshop(recipes, tmp_path, tmp_path, "apptainer", HERE, "bookworm", "openmpi", "none")
    monkeypatch.setattr(machine, "KEYRING", tmp_path / "keyring.gpg")
    image = Image(workshop, "tiny")
    with pytest.raises(cache.CacheError, match="install debian-archive-keyring"):
        image.prepare()
    machine.KEYRING.write_text("key")
    machine.KEYRING.chmod(0o666)
    with pytest.raises(cache.CacheError, match="can be written by others"):
        image.prepare()
    machine.KEYRING.chmod(0o644)
    image.prepare()


def test_an_image_for_another_architecture_is_used_and_not_built(recipes, tmp_path):
    cache = tmp_path / "cache"
    (recipes / "above.def").write_text("Bootstrap: localimage\nFrom: {{ BASE }}\n\n%arguments\n    BASE=tiny\n")
    result = build(recipes, cache, "above", architecture="pdp11")
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        f"error: no image: above is for pdp11, and it would be built here on {HERE}: set "
        "build_on_node in the site's extras, or name a ready image in the site's extras, images\n"
    )
    assert not (tmp_path / "image.sif").exists()
    image = cache / f"tiny-bookworm-pdp11-{key_of(recipes, 'tiny', 'pdp11')}.sif"
    cache.mkdir()
    image.write_bytes(b"built elsewhere")
    facts = {"bytes": 15, "sha256": hashlib.sha256(b"built elsewhere").hexdigest()}
    image.with_suffix(".json").write_text(json.dumps(facts))
    result = build(recipes, cache, architecture="pdp11")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "image.sif").resolve() == image


@pytest.mark.parametrize(("link", "problem"), [(None, "does not exist"), ("none.sif", "cannot be read: ")])
def test_a_ready_image_that_cannot_be_read_is_one_line(tmp_path, link, problem):
    image = tmp_path / "none.sif"
    if link:
        image.symlink_to(link)
    result = take(tmp_path, image)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert f"{image}, which the site's extras name, {problem}" in result.stderr
    assert not (tmp_path / contract.IMAGE_RECORD).exists()


SIF = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x00%s\x00"


@pytest.mark.parametrize("digits, wanted", [(b"02", "x86_64"), (b"06", "ppc64le")])
def test_an_image_of_another_architecture_is_refused(tmp_path, digits, wanted):
    """Before any run: a node that emulates others would run it."""
    (tmp_path / "own.sif").write_bytes(SIF % digits)
    assert take(tmp_path, tmp_path / "own.sif", wanted).returncode == 0
    assert take(tmp_path, tmp_path / "own.sif", "power9-of-the-site").returncode == 0
    result = take(tmp_path, tmp_path / "own.sif", "riscv64")
    assert result.returncode == 1
    assert result.stderr == (
        f"error: the image {tmp_path}/own.sif is for {wanted}, and the partition's nodes are riscv64: name one for "
        "these in the site's extras, images\n"
    )


def test_the_architecture_of_an_unpacked_image_is_that_of_its_shell(tmp_path):
    unpacked = tmp_path / "unpacked"
    (unpacked / "usr" / "bin").mkdir(parents=True)
    (unpacked / "bin").symlink_to("usr/bin")
    (unpacked / "bin" / "sh").symlink_to("dash")
    shutil.copy("/bin/sh", unpacked / "bin" / "dash")
    assert image_files.read_architecture(unpacked) == platform.machine()
    assert take(tmp_path, unpacked, platform.machine()).returncode == 0
    assert "is for" in take(tmp_path, unpacked, "riscv64").stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_ended_leaves_no_process_and_no_image(recipes, tmp_path, marker, number):
    """Nobody but the step itself ends the runtime and what its recipe started."""
    (recipes / "tiny.def").write_text(f"{RECIPE}\n%setup\n    setsid {marker} &\n    {marker}\n")
    step = subprocess.Popen(command_of(recipes, tmp_path / "cache"))
    assert eventually(lambda: alive(marker), of=step)
    step.send_signal(number)
    assert step.wait(60) != 0
    assert eventually(lambda: not alive(marker) and not alive(str(tmp_path / "cache")))
    assert images(tmp_path / "cache") == []
