"""Images are built into the cache once, or not at all: with the real runtime, from a recipe that takes a second."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, write_program
from containercheck.job import contract
from containercheck.job.build import cache, image_files, machine
from containercheck.job.build.image_build import Image, Workshop

PROGRAM = REPOSITORY / "checks" / "containercheck" / "job"
HERE = platform.machine()
RUNTIME = "apptainer" if shutil.which("apptainer") else "singularity"

#: Where Debian's busybox-static puts a program that needs no library.
BUSYBOX = "/bin/busybox"
RECIPE = """Bootstrap: scratch

%arguments
    MIRROR=

%files
    payload.txt /payload.txt

%labels
    Mirror {{ MIRROR }}
"""


@pytest.fixture
def recipes(tmp_path):
    directory = tmp_path / "images"
    directory.mkdir()
    (directory / "tiny.def").write_text(RECIPE)
    (tmp_path / "payload.txt").write_text("payload\n")
    return directory


def command(recipes, cache, name="tiny", architecture=HERE, release="bookworm", mpi="openmpi", more=()):
    options = ["--recipes", recipes, "--cache", cache, "--jar-cache", cache / "jars", "--mirror", "none"]
    options += ["--runtime", RUNTIME, "--architecture", architecture, "--release", release, "--mpi", mpi]
    options += ["--link", recipes.parent / "image.sif"]
    return [sys.executable, str(PROGRAM), "image", *map(str, options), *more, name]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def build(*arguments, **options):
    return run(command(*arguments, **options))


def take(tmp_path, path, *options):
    words = ["image", "--ready", str(path), "--link", str(tmp_path / "image.sif"), *options]
    return run([sys.executable, str(PROGRAM), *words])


def recorded(directory):
    """Return what is written of an image, without what tells on a node whether it is the same file."""
    known = json.loads((directory / contract.IMAGE_RECORD).read_text())
    if known["sha256"]:
        found = os.stat(known["path"])
        assert (known.pop("inode"), known.pop("mtime_ns")) == (found.st_ino, found.st_mtime_ns)
    return known


def key_of(recipes, name, architecture=HERE, **facts):
    return Image(Workshop(recipes, recipes, recipes, RUNTIME, architecture, "bookworm", "openmpi", **facts), name).key


def images(cache):
    return sorted(path.name for path in cache.glob("*.sif"))


def test_an_image_is_built_once(recipes, tmp_path):
    cache = tmp_path / "cache"
    first = build(recipes, cache)
    assert first.returncode == 0, first.stderr
    assert "built in" in first.stdout
    again = build(recipes, cache)
    assert "built in" not in again.stdout
    assert first.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]


def test_the_image_below_counts_too(recipes, tmp_path):
    (recipes / "above.def").write_text("Bootstrap: localimage\nFrom: {{ BASE }}\n\n%arguments\n    BASE=tiny\n")
    before = key_of(recipes, "above")
    (tmp_path / "payload.txt").write_text("other\n")
    assert key_of(recipes, "above") != before


def test_another_release_is_another_image_and_the_recipe_gets_its_name(recipes, tmp_path):
    named = RECIPE.replace("    MIRROR=\n", "    MIRROR=\n    RELEASE=\n") + "    Release {{ RELEASE }}\n"
    (recipes / "tiny.def").write_text(named)
    for release in ("bookworm", "trixie"):
        result = build(recipes, tmp_path / "cache", release=release)
        assert result.returncode == 0, result.stderr
        (image,) = (tmp_path / "cache").glob(f"tiny-{release}-{HERE}-*.sif")
        labels = run([RUNTIME, "inspect", "--labels", str(image)]).stdout
        assert f"Release: {release}" in labels
        assert recorded(tmp_path)["release"] == release
    assert len(images(tmp_path / "cache")) == 2


def test_another_mpi_is_another_image_where_the_recipe_takes_it(recipes, tmp_path):
    for family in ("openmpi", "mpich"):
        assert build(recipes, tmp_path / "cache", mpi=family).returncode == 0
    assert len(images(tmp_path / "cache")) == 1
    named = RECIPE.replace("    MIRROR=\n", "    MIRROR=\n    MPI=\n") + "    Family {{ MPI }}\n"
    (recipes / "tiny.def").write_text(named)
    for family in ("openmpi", "mpich"):
        result = build(recipes, tmp_path / "families", mpi=family)
        assert result.returncode == 0, result.stderr
        image = tmp_path / "image.sif"
        assert f"Family: {family}" in run([RUNTIME, "inspect", "--labels", str(image)]).stdout
        assert recorded(tmp_path)["mpi"] == family
    assert len(images(tmp_path / "families")) == 2


def test_a_recipe_for_one_mpi_is_a_skip_on_another(recipes, tmp_path):
    (recipes / "tiny.def").write_text(RECIPE + "    MPI openmpi\n")
    result = build(recipes, tmp_path / "cache", mpi="mpich")
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        "error: no image: tiny.def is for Open MPI only, and the partition's MPI is MPICH: name a ready image in the "
        "site's extras, images\n"
    )
    assert build(recipes, tmp_path / "cache").returncode == 0


def test_a_recipe_for_one_release_is_a_skip_on_another(recipes, tmp_path):
    (recipes / "tiny.def").write_text(RECIPE + "    MPI openmpi\n    RELEASE bookworm\n")
    result = build(recipes, tmp_path / "cache", release="trixie")
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        "error: no image: tiny.def is for bookworm only, which has its software, and the image would be of trixie: "
        "name a ready image in the site's extras, images\n"
    )
    assert images(tmp_path / "cache") == []
    assert build(recipes, tmp_path / "cache").returncode == 0


def test_a_recipe_that_is_pinned_for_other_machines_is_a_skip(recipes, tmp_path):
    (recipes.parent / "requirements.txt").write_text("# only for: pdp11\nsix==1.16.0\n")
    text = (recipes / "tiny.def").read_text()
    (recipes / "tiny.def").write_text(text.replace("%files\n", "%files\n    requirements.txt /requirements.txt\n"))
    result = run(command(recipes, tmp_path / "cache"))
    assert result.returncode == 3
    assert result.stderr.startswith(f"error: no image: tiny is pinned for pdp11, and the partition is {HERE}: pin it")


def test_the_recipe_gets_the_instruction_set_of_the_architecture(recipes, tmp_path):
    """Which is another image than that of another one."""
    text = (recipes / "tiny.def").read_text()
    before = key_of(recipes, "tiny")
    (recipes / "tiny.def").write_text(f"{text}\n# {{{{ SIMD }}}}\n")
    assert key_of(recipes, "tiny") != before


def deliver_often(directory):
    """As often as an unlink before each new link needs to fail every time."""
    for _ in range(3000):
        cache.deliver(lambda: directory / "target", directory / "link")


def test_two_that_deliver_to_one_place_at_once_both_end_with_a_link(tmp_path, capfd):
    (tmp_path / "target").touch()
    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=deliver_often, args=(tmp_path,)) for _ in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]
    capfd.readouterr()


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
    assert f"cannot be written (Read-only file system): it goes to {own}" in result.stdout
    assert len(images(own)) == 1


def test_nothing_but_read_only_caches_is_a_clear_error(recipes, file_system, monkeypatch):
    place = file_system("size=16m")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "own"))
    result = build(recipes, place / "images")
    assert result.returncode == 1
    assert "cannot be written (Read-only file system): set image_cache" in result.stderr
    assert len(result.stderr.splitlines()) == 1


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
    more = [f"--runtime={tmp_path / 'apptainer'}"]
    result = run(command(recipes, tmp_path / "cache", more=more))
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


def test_a_missing_recipe_or_file_is_a_clear_error(recipes, tmp_path):
    assert "no definition file" in build(recipes, tmp_path / "cache", "absent").stderr
    (tmp_path / "payload.txt").unlink()
    assert "tiny.def copies" in build(recipes, tmp_path / "cache").stderr


def test_which_image_it_is_is_written_beside_the_link(recipes, tmp_path):
    for _ in ("built", "taken from the cache"):
        assert build(recipes, tmp_path / "cache").returncode == 0
        (image,) = (tmp_path / "cache").glob("*.sif")
        content = image.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        made = {"recipe": "tiny", "release": "bookworm", "mpi": "openmpi"}
        assert recorded(tmp_path) == {"path": str(image), "sha256": digest, "bytes": len(content), **made}
        assert (tmp_path / "image.sif").resolve() == image


def test_the_bytes_of_its_files_are_counted_when_it_is_built(recipes, tmp_path):
    """By a container of it; what was built before they were counted is used as it is."""
    if not os.path.exists(BUSYBOX):
        pytest.skip("needs busybox-static")
    root = tmp_path / "root" / "bin"
    root.mkdir(parents=True)
    shutil.copy(BUSYBOX, root)
    for name in ("sh", "tar", "grep", "ls"):
        (root / name).symlink_to("busybox")
    (recipes / "tiny.def").write_text(f"Bootstrap: localimage\nFrom: {root.parent}\n")
    program = os.path.getsize(BUSYBOX)
    assert build(recipes, tmp_path / "cache").returncode == 0
    assert program < recorded(tmp_path)[contract.CONTENT_BYTES] < program + (64 << 10)
    (record,) = (tmp_path / "cache").glob("tiny-*.json")
    stored = json.loads(record.read_text())
    del stored[contract.CONTENT_BYTES]
    record.write_text(json.dumps(stored))
    again = build(recipes, tmp_path / "cache")
    assert again.returncode == 0 and "built in" not in again.stdout
    assert contract.CONTENT_BYTES not in recorded(tmp_path)


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


def test_a_ready_image_is_recorded_with_what_it_really_is(tmp_path):
    (tmp_path / "hpcc-2024.sif").write_bytes(b"image")
    (tmp_path / "current.sif").symlink_to("hpcc-2024.sif")
    result = take(tmp_path, tmp_path / "current.sif")
    assert result.returncode == 0, result.stderr
    real = str(tmp_path / "hpcc-2024.sif")
    assert recorded(tmp_path) == {"path": real, "sha256": hashlib.sha256(b"image").hexdigest(), "bytes": 5}
    assert os.readlink(tmp_path / "image.sif") == real


SIF = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x00%s\x00"


@pytest.mark.parametrize("digits, wanted", [(b"02", "x86_64"), (b"04", "aarch64"), (b"06", "ppc64le")])
def test_an_image_of_another_architecture_is_refused(tmp_path, digits, wanted):
    """Before any run: a node that emulates others would run it."""
    (tmp_path / "own.sif").write_bytes(SIF % digits)
    assert take(tmp_path, tmp_path / "own.sif", "--architecture", wanted).returncode == 0
    assert take(tmp_path, tmp_path / "own.sif", "--architecture", "power9-of-the-site").returncode == 0
    result = take(tmp_path, tmp_path / "own.sif", "--architecture", "riscv64")
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
    assert take(tmp_path, unpacked, "--architecture", platform.machine()).returncode == 0
    assert "is for" in take(tmp_path, unpacked, "--architecture", "riscv64").stderr


def test_a_ready_image_that_is_not_there_is_one_line(tmp_path):
    result = take(tmp_path, tmp_path / "none.sif")
    assert result.returncode == 1
    assert result.stderr == f"error: no image: {tmp_path}/none.sif, which the site's extras name, does not exist\n"
    (tmp_path / "loop.sif").symlink_to("loop.sif")
    result = take(tmp_path, tmp_path / "loop.sif")
    assert result.returncode == 1
    assert "cannot be read" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / contract.IMAGE_RECORD).exists()
