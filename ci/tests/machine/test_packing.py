"""Environments of Spack in images: what is packed, and that it runs from another place; with programs by the compiler.

Spack is a command that the tests plant, which has a program and a library ready; test_spack.py has the real one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, entry_of, log_of, write_program
from containercheck import software
from containercheck.job import locks
from containercheck.job.build import cache, image_build, spack_install
from containercheck.job.container_runtimes import by_name
from containercheck.site.sites import Site
from containercheck.software import Wanted
from hypothesis import given
from hypothesis import strategies as st
from test_images import HERE, RUNTIME

UNPACK = REPOSITORY / "checks" / "src" / "environment" / "unpack"

RECIPE = """Bootstrap: scratch

%arguments
    SPACK=environment

%files
    {{ SPACK }} /opt/environment.tar
"""
#: Finds its library by its place, and a table by the library's.
GREET = "#include <stdio.h>\nconst char *word(void);\nint main(void) { puts(word()); return 0; }\n"
WORD = """
#include <stdio.h>
const char *word(void) {
    static char line[64];
    FILE *table = fopen("%s/share/table", "r");
    return table && fgets(line, sizeof line, table) ? line : "no table";
}
"""
#: What of Spack the packing asks, and a concretiser and an installer that take no time.
SPACK = """#!/bin/sh
place={place}
[ "$1" != --version ] || {{ cat $place/version; exit; }}
case $4 in
concretize)
    target=$(sed -n 's/.*"target=\\(.*\\)".*/\\1/p' "$3/partition.yaml")
    sed "s/TARGET/$target/" $place/lock >"$3/spack.lock"
    ;;
install) touch $place/installed && mkdir -p "$3/.spack-env" && cp -a $place/view "$3/.spack-env/view" ;;
find) cat $place/prefixes ;;
esac
"""


def edge(digest, *types, virtuals=()):
    """Return a dependency as a lock file has it, since Spack 0.21."""
    return {"name": digest, "hash": digest, "parameters": {"deptypes": [*types], "virtuals": [*virtuals]}}


def old(digest, *types):
    """Return one as it was before."""
    return {"name": digest, "hash": digest, "type": [*types]}


def package(*dependencies, **facts):
    return {"name": "package", "version": "1", **({"dependencies": [*dependencies]} if dependencies else {}), **facts}


@pytest.mark.parametrize("depends", [edge, old])
def test_what_is_needed_to_run_is_packed_and_the_sites_own_libraries_are_named(depends):
    content = {
        "roots": [{"hash": "program"}, {"hash": "tool"}],
        "concrete_specs": {
            "program": package(
                depends("library", "build", "link"), depends("gmake", "build"), depends("fabric", "link")
            ),
            "tool": package(depends("library", "link"), depends("python", "run"), depends("check", "test")),
            "library": package(depends("runtime", "link"), depends("netcdf", "build", "link")),
            "runtime": package(),
            "python": package(depends("library", "link"), depends("perl", "run")),
            "gmake": package(depends("guile", "link")),
            "guile": package(),
            "check": package(),
            # Of the operating system; of the site, and what that needs; a program of the site's is no library.
            "fabric": package(depends("guile", "link"), name="fabric", external={"path": "/usr"}),
            "netcdf": package(depends("hdf5", "link"), name="netcdf-c", external={"path": "/apps/netcdf"}),
            "hdf5": package(name="hdf5", external={"path": "/apps/hdf5"}),
            "perl": package(name="perl", external={"path": "/apps/perl"}),
        },
    }
    assert spack_install.needed(content) == ["library", "program", "python", "runtime", "tool"]
    assert spack_install.outside(content) == {"netcdf-c": "/apps/netcdf"}
    # An MPI that Spack built is not packed: the image has its own.
    content["concrete_specs"]["runtime"] = package(edge("guile", "link", virtuals=["mpi"]))
    assert "guile" not in spack_install.needed(content)


NAMES = st.text("abcdefghijklmnop-._+ é", min_size=1, max_size=12).filter(lambda text: text.strip("."))
PATHS = st.lists(NAMES, min_size=4, max_size=8).map(lambda names: "/home/" + "/".join(names))


@given(st.lists(PATHS, min_size=1, max_size=6, unique=True), st.data())
def test_no_old_path_is_left_and_no_size_changes(paths, data):
    new = spack_install.places({path: f"p{number}" for number, path in enumerate(paths)})
    change = spack_install.replacing(new)
    parts = st.one_of(st.binary(max_size=20), st.sampled_from([os.fsencode(path) for path in paths]))
    content = b"".join(data.draw(st.lists(parts, max_size=20)))
    changed = change(content)
    assert len(changed) == len(content)
    assert not any(os.fsencode(path) in changed for path in paths)
    assert all(len(os.fsencode(place)) == len(os.fsencode(path)) for path, place in new.items())
    # Each is a place of its own.
    assert len({os.path.normpath(place) for place in new.values()}) == len(paths)
    assert change(changed) == changed


def test_a_path_that_is_too_short_is_one_error():
    assert spack_install.places({"/a/tree/of/hpcg": "hpcg"}) == {"/a/tree/of/hpcg": "/opt/env///hpcg"}
    with pytest.raises(cache.CacheError) as caught:
        spack_install.places({"/apps/hpcg": "hpcg-abcdefg"})
    assert str(caught.value) == (
        "/apps/hpcg is too short a path to be replaced by /opt/env/hpcg-abcdefg, the image's\n"
        "set a longer one: caches in the site's extras, or install_tree in the site's Spack file"
    )


def compiled(directory, name, source, *options):
    directory.mkdir(parents=True, exist_ok=True)
    # Libraries have to follow the source.
    words = ["gcc", "-x", "c", "-", "-x", "none", "-o", str(directory / name), *options]
    subprocess.run(words, input=source, text=True, check=True)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Install a program and its library as Spack does, by a command that stands for it, with an environment's file."""
    word, greet = (tmp_path / "tree" / name for name in ("word-1-aaaaaaaaaa", "greet-1-bbbbbbbbbb"))
    compiled(word / "lib", "libword.so", WORD % word, "-shared", "-fPIC")
    options = [f"-L{word}/lib", "-Wl,--no-as-needed", "-lword", f"-Wl,-rpath,{word}/lib,--disable-new-dtags"]
    compiled(greet / "bin", "greet", GREET, *options)
    (word / "share").mkdir()
    (word / "share" / "table").write_text("hello from the table")
    (greet / "bin" / "again").symlink_to(greet / "bin" / "greet")
    write_program(greet / "bin" / "script", f"exec {greet}/bin/again")
    for prefix in (word, greet):
        (prefix / ".spack").mkdir()
        (prefix / ".spack" / "spec.json").write_text("{}")
    (tmp_path / "view" / "bin").mkdir(parents=True)
    for name in ("greet", "script"):
        (tmp_path / "view" / "bin" / name).symlink_to(greet / "bin" / name)
    (tmp_path / "prefixes").write_text(f"aaaaaaaaaa {word}\nbbbbbbbbbb {greet}\n")
    greeting = package(edge("aaaaaaaaaa", "link"), name="greet", arch={"target": "TARGET"})
    concrete = {"bbbbbbbbbb": greeting, "aaaaaaaaaa": package(name="word")}
    (tmp_path / "lock").write_text(json.dumps({"roots": [{"hash": "bbbbbbbbbb"}], "concrete_specs": concrete}))
    (tmp_path / "version").write_text("1.0\n")
    (tmp_path / "spack").write_text(SPACK.format(place=tmp_path))
    (tmp_path / "spack").chmod(0o755)
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "spack.yaml").write_text("spack: {}\n")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "tiny.def").write_text(RECIPE)
    cache.version_of.cache_clear()
    for name in ("MACHINE_LOCK", "TURN_LOCK"):
        monkeypatch.setattr(locks, name, tmp_path / name)
    return tmp_path


def packed(place):
    """Return the archive of the environment."""
    environment = spack_install.SpackEnvironment(
        place / "environment", place / "c", HERE, HERE, str(place / "spack"), packed=True
    )
    environment.ensure()
    spack_install.pack(environment, place / "environment.tar")
    return place / "environment.tar"


def image_of(place, name="tiny", **parts):
    """Return the image of a recipe that has the environment."""
    spack = {"command": str(place / "spack"), "target": HERE, "directory": place / "c", **parts}
    places = (place / "images", place / "cache", place / "jars")
    shop = image_build.Workshop(*places, RUNTIME, HERE, "bookworm", "openmpi", mirror="none", spack=spack)
    return image_build.Image(shop, name)


def in_root(place, *words, debian=()):
    """Run a command where /opt is a directory of the test's own, and so is what apt keeps; as in an image.

    Debian has the named packages, and says only that it installs them.
    """
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*own, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces on this machine")
    (place / "opt").mkdir(exist_ok=True)
    (place / "apt").mkdir(exist_ok=True)
    write_program(place / "apt-get", 'echo "apt-get $*"')
    write_program(place / "apt-cache", f"case $2 in {'|'.join(['none', *debian])}) ;; *) exit 100 ;; esac")
    script = 'mount --bind "$0/opt" /opt && mount --bind "$0/apt" /var/lib/apt && export PATH="$0:$PATH" && exec "$@"'
    return subprocess.run([*own, "sh", "-c", script, str(place), *words], capture_output=True, text=True, timeout=60)


def unpacked(place, *programs, **facts):
    (place / "opt").mkdir(exist_ok=True)
    packed(place).replace(place / "opt" / "environment.tar")
    return in_root(place, "sh", str(UNPACK), *programs, **facts)


def test_a_program_runs_from_another_place(place):
    result = unpacked(place, "bin/greet", "bin/script")
    assert result.returncode == 0, result.stderr
    shutil.rmtree(place / "tree")
    for program in ("greet", "script"):
        found = in_root(place, f"/opt/env/view/bin/{program}")
        assert (found.returncode, found.stdout) == (0, "hello from the table\n"), found.stderr
    # The same without what was replaced would have had the table of the tree that is gone.
    assert not (place / "opt" / "environment.tar").exists()


def test_what_is_packed_has_no_old_path_and_nothing_that_only_spack_and_compilers_read(place):
    (next((place / "tree").glob("word-*")) / "lib" / "libword.a").write_text("static")
    with tarfile.open(packed(place)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        text = b"".join(archive.extractfile(member).read() for member in members.values() if member.isreg())
    assert {name for name, member in members.items() if not member.isdir()} == {
        "opt/env/greet-bbbbbbb/bin/again",
        "opt/env/greet-bbbbbbb/bin/greet",
        "opt/env/greet-bbbbbbb/bin/script",
        "opt/env/view/bin/greet",
        "opt/env/view/bin/script",
        "opt/env/word-aaaaaaa/lib/libword.so",
        "opt/env/word-aaaaaaa/share/table",
    }
    assert str(place).encode() not in text
    assert all(member.uid == member.gid == 0 for member in members.values())
    link = members["opt/env/view/bin/greet"].linkname
    assert os.path.normpath(link) == "/opt/env/greet-bbbbbbb/bin/greet"
    assert len(link) == len(os.readlink(place / "view" / "bin" / "greet"))
    assert members["opt/env/greet-bbbbbbb/bin/script"].mode == 0o755


def test_a_library_of_the_sites_own_is_one_error(place):
    content = json.loads((place / "lock").read_text())
    content["concrete_specs"]["aaaaaaaaaa"]["external"] = {"path": "/apps/word", "module": None}
    (place / "lock").write_text(json.dumps(content))
    with pytest.raises(cache.CacheError) as error:
        image_of(place).ensure()
    assert str(error.value) == (
        "no image can have what is outside of Spack and of the operating system: word (/apps/word)\n"
        "leave it to Spack, or name a ready image in the site's extras, images"
    )
    # Before anything is installed, which may take hours.
    assert not (place / "installed").exists()


def need_from_outside(place, name):
    """Let the program need a library that is in no package of the environment."""
    compiled(place / "outside", name, "int some;", "-shared", "-fPIC", f"-Wl,-soname,{name}")
    greet = next((place / "tree").glob("greet-*"))
    library = str(place / "outside" / name)
    compiled(greet / "bin", "greet", "int main(void) { return 0; }", "-Wl,--no-as-needed", library)


def test_a_library_that_the_image_lacks_is_one_error(place):
    need_from_outside(place, "libnowhere.so.19")
    result = unpacked(place, "bin/gr*", debian=["libnowhere", "libnowhere20"])
    assert result.returncode == 1
    assert result.stderr == (
        "error: the environment needs libnowhere.so.19, which the image has not, nor Debian by that name: an external "
        "of the site's Spack file? Leave it to Spack, or name a ready image in the site's extras, images\n"
    )
    assert "install" not in result.stdout


@pytest.mark.parametrize(
    ("library", "packages", "taken"),
    [
        ("libnone16.so.16", ["libnone16-16t64", "libnone16-16"], "libnone16-16"),
        ("libnone.so.3", ["libnone3t64"], "libnone3t64"),
        ("libNone_x.so.1.0", ["libnone-x1.0"], "libnone-x1.0"),
        ("libnone.so.103", ["libnone-103"], None),
    ],
)
def test_a_library_of_the_operating_system_comes_from_debian(place, library, packages, taken):
    need_from_outside(place, library)
    result = unpacked(place, "bin/greet", debian=packages)
    line = f"apt-get -qy install --no-install-recommends {taken}\n"
    assert (line in result.stdout) == bool(taken), result.stdout
    # This apt installs nothing.
    assert result.stderr.startswith(f"error: the environment needs {library}, ")


def test_a_program_that_the_environment_does_not_build_is_one_error(place):
    result = unpacked(place, "bin/bt-mz.*")
    assert result.returncode == 1
    assert result.stderr == "error: the environment does not build bin/bt-mz.*: see the specs in its spack.yaml\n"


def test_an_environment_for_another_processor_than_asked_for_is_an_error(place):
    """Spack forgets what is required of all packages where one has a requirement of its own."""
    (place / "lock").write_text((place / "lock").read_text().replace('"TARGET"', '{"name": "pdp11", "vendor": "DEC"}'))
    with pytest.raises(cache.CacheError) as caught:
        packed(place)
    assert str(caught.value) == (
        f"installing environment failed: greet would be for pdp11, not {HERE}: write 'prefer' where the site's Spack "
        f"file has 'require' for it\nthe whole log: {log_of(place / 'c', 'environment')}"
    )


def key(place, **facts):
    cache.version_of.cache_clear()
    return image_of(place, **facts).key


def test_environment_target_and_spack_make_other_images(place):
    keys = [key(place), key(place, target="x86_64_v2")]
    (place / "site.yaml").write_text("packages: {}\n")
    keys.append(key(place, site_file=place / "site.yaml"))
    shutil.copytree(place / "environment", place / "own")
    assert key(place, environment=place / "own") == keys[0]
    (place / "own" / "spack.yaml").write_text("spack: {view: true}\n")
    keys.append(key(place, environment=place / "own"))
    (place / "version").write_text("1.1\n")
    keys.append(key(place))
    assert len(set(keys)) == 5
    (place / "version").write_text("1.0\n")
    assert key(place) == keys[0]
    # So does that of an image below.
    (place / "images" / "above.def").write_text("Bootstrap: localimage\n%arguments\n    BASE=tiny\n")
    assert image_of(place, "above").key != image_of(place, "above", target="x86_64_v2").key


def test_an_image_is_built_once_with_its_environment(place, capsys):
    made = image_of(place)
    made.ensure()
    said = capsys.readouterr().out
    assert "environment: installed in " in said and "tiny: built in " in said
    (lock,) = (place / "c").glob("environment-*/spack.lock")
    lock_digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    assert made.facts()["spack"] == {"specs": ["greet@1/bbbbbbb"], "target": HERE, "lock": lock_digest}
    image_of(place).ensure()
    assert capsys.readouterr().out == ""
    # What was packed is not left.
    assert [path.name for path in (place / "cache").glob(".*")] in ([], [cache.MARK])


def test_what_the_recipe_says_of_the_environment_is_what_is_said(place):
    made = image_of(place)
    made.log.parent.mkdir()
    made.log.write_text(
        "error: another\nerror: the environment needs libx.so.1, ...\nFATAL:   While performing build\n"
    )
    assert made.last_words() == "the environment needs libx.so.1, ..."
    made.log.write_text("FATAL:   While performing build\n")
    assert made.last_words() == "FATAL:   While performing build"


# What the build step is told.


def site(**facts):
    facts = {"arch": "x86_64_v3", "release": "bookworm", **facts}
    return Site("a:b", is_here=True, architecture="x86_64", cores=2, gpus=0, **facts)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"spack": "hpcg"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpcg")),
        # Another one of the bare program's; for any machine of the architecture; none of it.
        ({"spack": f"{REPOSITORY}/spack-envs/hpl"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpl")),
        ({"spack": "hpcg", "portable": True}, ("x86_64", REPOSITORY / "spack-envs" / "hpcg")),
        ({"modules": ("hpcg",)}, ("x86_64_v3", None)),
        ({"spack": "hpcc", "recipe": "hpcc"}, None),
    ],
)
def test_an_image_has_the_environment_of_the_bare_program_or_its_recipes_own(monkeypatch, facts, expected):
    monkeypatch.setattr(shutil, "which", str)
    wanted = Wanted("HPCG", "xhpcg", **{"recipe": "hpcg", "runtime": by_name("Apptainer"), **facts})
    where = site(spack="/apps/spack", spack_site="/site/spack.yaml", caches="/shared")
    spack = entry_of(software.images.provide_image(wanted, where).build[0]).get("spack")
    if expected is None:
        assert spack is None
        return
    target, environment = expected
    parts = {"command": "/apps/spack", "directory": "/shared/spacks", "site_file": "/site/spack.yaml", "target": target}
    assert spack == {**parts, **({"environment": str(environment)} if environment else {})}


def test_without_the_sites_spack_the_check_fails_and_not_with_an_image_of_the_sites():
    wanted = Wanted("HPCG", "xhpcg", recipe="hpcg", runtime=by_name("Apptainer"))
    with pytest.raises(
        software.Misconfigured, match="^no software: HPCG comes from Spack, and no-such-spack is not on"
    ):
        software.images.provide_image(wanted, site(spack="no-such-spack"))
    ready = site(spack="no-such-spack", images={"hpcg": str(Path(__file__))})
    assert entry_of(software.images.provide_image(wanted, ready).build[0])["kind"] == "ready"
