"""Trees of Spack and EasyBuild in images: what is packed, and that it runs from another place.

Spack is a command that the tests plant, which has a program and a library ready; test_spack.py has the real one. The
modules of EasyBuild are files that the tests write.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile

import pytest
from conftest import REPOSITORY, entry_of, log_of, write_program
from containercheck import software
from containercheck.job import locks
from containercheck.job.build import cache, easybuild_install, image_build, packing, spack_install
from containercheck.job.container_runtimes import by_name
from containercheck.site.sites import Site
from containercheck.software import Wanted
from hypothesis import given
from hypothesis import strategies as st
from test_images import HERE, RUNTIME

SAMPLES = REPOSITORY / "ci" / "tests" / "programs"
UNPACK = REPOSITORY / "checks" / "src" / "environment" / "unpack"

#: Finds its library by its place, and a table by the library's.
GREET = (SAMPLES / "greet.c").read_text()
WORD = (SAMPLES / "word.c").read_text()


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
    new = packing.places({path: f"p{number}" for number, path in enumerate(paths)})
    change = packing.replacing(new)
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
    assert packing.places({"/a/tree/of/hpcg": "hpcg"}) == {"/a/tree/of/hpcg": "/opt/env///hpcg"}
    with pytest.raises(cache.CacheError) as caught:
        packing.places({"/apps/hpcg": "hpcg-abcdefg"})
    assert str(caught.value) == (
        "/apps/hpcg is too short a path to be replaced by /opt/env/hpcg-abcdefg, the image's\n"
        "set a longer one: caches in the site's extras"
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
    shutil.copy(SAMPLES / "spack", tmp_path)
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "spack.yaml").write_text("spack: {}\n")
    (tmp_path / "images").mkdir()
    shutil.copy(SAMPLES / "tree.def", tmp_path / "images")
    (tmp_path / "images" / "tiny.def").write_text("Bootstrap: scratch\n")
    cache.version_of.cache_clear()
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "lock")
    return tmp_path


def spack_tree(place, **parts):
    """Return the parts of the environment."""
    usual = {"command": str(place / "spack"), "target": HERE, "architecture": HERE, "directory": str(place / "c")}
    usual = {**usual, "environment": str(place / "environment"), "program": "bin/greet", "packed": True}
    return {**usual, **parts}


def packed(place):
    """Return the archive of the environment, and the facts of what it holds."""
    environment = spack_install.SpackEnvironment(**spack_tree(place))
    environment.ensure()
    return place / "tree.tar", environment.pack(place / "tree.tar")


def image_of(place, instead=False, **parts):
    """Return an image that has the environment."""
    places = {"recipes": place / "images", "images": place / "cache", "jars": place / "jars"}
    shop = {**places, "runtime": RUNTIME, "architecture": HERE, "release": "bookworm", "family": "openmpi"}
    tree = {"kind": "spack", **spack_tree(place, **parts)}
    return image_build.image_of("tiny", tree=tree, instead=instead, **shop, mirror="none")


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
    write_program(place / "apt-cache", f"case $2 in {'|'.join(['none', *debian])}) echo Package ;; esac")
    script = 'mount --bind "$0/opt" /opt && mount --bind "$0/apt" /var/lib/apt && export PATH="$0:$PATH" && exec "$@"'
    return subprocess.run([*own, "sh", "-c", script, str(place), *words], capture_output=True, text=True, timeout=60)


def unpacked(place, *programs, **facts):
    (place / "opt").mkdir(exist_ok=True)
    packed(place)[0].replace(place / "opt" / "tree.tar")
    return in_root(place, "sh", str(UNPACK), *programs, **facts)


def test_a_program_runs_from_another_place(place):
    result = unpacked(place, "bin/greet", "bin/script")
    assert result.returncode == 0, result.stderr
    shutil.rmtree(place / "tree")
    for program in ("greet", "script"):
        found = in_root(place, f"/opt/env/view/bin/{program}")
        assert (found.returncode, found.stdout) == (0, "hello from the table\n"), found.stderr
    # The same without what was replaced would have had the table of the tree that is gone.
    assert not (place / "opt" / "tree.tar").exists()


def test_what_is_packed_has_no_old_path_and_nothing_that_only_spack_and_compilers_read(place):
    (next((place / "tree").glob("word-*")) / "lib" / "libword.a").write_text("static")
    (next((place / "tree").glob("word-*")) / "include").mkdir()
    archive, facts = packed(place)
    with tarfile.open(archive) as archive:
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


def test_the_executable_is_known_as_it_is_installed_and_as_it_is_packed(place):
    archive, facts = packed(place)
    (greet,) = (place / "tree").glob("greet-*/bin/greet")
    with tarfile.open(archive) as stream:
        inside = stream.extractfile("opt/env/greet-bbbbbbb/bin/greet").read()
    assert facts["executable"] == [hashlib.sha256(content).hexdigest() for content in (greet.read_bytes(), inside)]
    # The path of its library is another one.
    assert facts["executable"][0] != facts["executable"][1]
    (word,) = (place / "tree").glob("word-*/lib/libword.so")
    with tarfile.open(archive) as stream:
        inside = stream.extractfile("opt/env/word-aaaaaaa/lib/libword.so").read()
    digests = [hashlib.sha256(content).hexdigest() for content in (inside, word.read_bytes())]
    assert facts["libraries"] == dict([digests]) and len({*digests}) == 2


def test_a_library_of_the_sites_own_is_one_error_unless_the_recipe_has_software(place, capsys):
    content = json.loads((place / "lock").read_text())
    content["concrete_specs"]["aaaaaaaaaa"]["external"] = {"path": "/apps/word", "module": None}
    (place / "lock").write_text(json.dumps(content))
    with pytest.raises(cache.CacheError) as error:
        image_of(place).ensure()
    reason = "no image can have libraries outside of Spack and of the operating system: word (/apps/word)"
    assert str(error.value) == f"{reason}\nlet Spack install them, or name a ready image in the site's extras, images"
    # Before anything is installed, which may take hours.
    assert not (place / "installed").exists()
    assert image_of(place, instead=True).recipe.name == "tiny"
    assert f"tiny: the image has another build than bare runs: {reason}" in capsys.readouterr().out


@pytest.fixture
def module(tmp_path):
    """Lay out a program as EasyBuild installs it: its module loads a library's, that one MPI's, by Lua and Tcl."""
    found = easybuild_install.Module("Tiny", tmp_path, HERE, HERE, "Tiny-1.0.eb", "tiny", command="true")
    modules = {
        found.path / "modules/all/Tiny/1.0.lua": 'if not isloaded("Word/2") then\n    load("Word/2")\nend\n',
        found.tree / "modules/all/Word/2": "if { ![ is-loaded MPI/3 ] } {\n    module load MPI/3\n}\n",
        found.tree / "modules/all/MPI/3.lua": "",
        found.tree / "modules/all/Other/4.lua": "",
    }
    files = [found.path / "software/Tiny/1.0/bin/tiny", found.tree / "software/Word/2/lib/libword.so"]
    files += [found.tree / "software/MPI/3/lib/libmpi.so.40", found.tree / "software/Other/4/bin/other"]
    for path, text in {**modules, **{path: path.name for path in files}}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    record = {"module": "Tiny/1.0", "modulefile": "modules/all/Tiny/1.0.lua", "program": "software/Tiny/1.0/bin/tiny"}
    found.record.write_text(json.dumps({**record, "bytes": 1}))
    return found


def test_of_easybuild_the_modules_that_a_program_loads_are_packed_without_mpi(module, tmp_path):
    facts = module.pack(tmp_path / "tree.tar")
    with tarfile.open(tmp_path / "tree.tar") as archive:
        files = {member.name for member in archive.getmembers() if member.isreg()}
    assert files == {"opt/env/view/bin/tiny", "opt/env/Word-2/lib/libword.so"}
    # It has no paths of its own, and so is the same in the image.
    assert facts["executable"] == 2 * [hashlib.sha256(b"tiny").hexdigest()]


def test_a_module_of_the_sites_own_is_one_error(module):
    (module.tree / "modules/all/Word/2").unlink()
    with pytest.raises(packing.UnpackableError, match="no image can have the module Word/2, which is the site's own"):
        module.directories()


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
        "error: the tree needs libnowhere.so.19, which the image has not, nor Debian by that name: an external of "
        "the site's Spack file? Leave it to Spack, or name a ready image in the site's extras, images\n"
    )
    assert "install" not in result.stdout


@pytest.mark.parametrize(
    ("library", "packages", "taken"),
    [
        ("libnone16.so.16", ["libnone16-16t64", "libnone16-16"], "libnone16-16"),
        ("libnone.so.3", ["libnone3t64"], "libnone3t64"),
        ("libnone.so.2.6", ["libnone2.6v5"], "libnone2.6v5"),
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
    assert result.stderr.startswith(f"error: the tree needs {library}, ")


def test_a_program_that_the_environment_does_not_build_is_one_error(place):
    result = unpacked(place, "bin/bt-mz.*")
    assert result.returncode == 1
    assert result.stderr == "error: the tree has no bin/bt-mz.*: see the specs of its spack.yaml, or its easyconfig\n"


def test_an_environment_for_another_processor_than_asked_for_is_an_error(place):
    """Spack forgets what is required of all packages where one has a requirement of its own."""
    (place / "lock").write_text((place / "lock").read_text().replace('"TARGET"', '{"name": "pdp11", "vendor": "DEC"}'))
    with pytest.raises(cache.CacheError) as caught:
        packed(place)
    assert str(caught.value) == (
        f"installing environment failed: greet would be for pdp11, not {HERE}: write 'prefer' in place of "
        f"'require' for it in the site's Spack file\nthe whole log: {log_of(place / 'c', 'environment')}"
    )


def key(place, **facts):
    cache.version_of.cache_clear()
    return image_of(place, **facts).key


def test_environment_target_and_spack_make_other_images(place):
    keys = [key(place), key(place, target="x86_64_v2")]
    # One image for all programs of an environment.
    assert key(place, program="bin/script") == keys[0]
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


def test_an_image_is_built_once_with_its_environment(place, capsys):
    made = image_of(place)
    made.ensure()
    said = capsys.readouterr().out
    assert "environment: installed in " in said and "tiny: built in " in said
    (lock,) = (place / "c").glob("environment-*/spack.lock")
    lock_digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    tree = made.facts()["tree"]
    assert (len(tree.pop("executable")), len(tree.pop("libraries"))) == (2, 1)
    assert tree == {"specs": ["greet@1/bbbbbbb"], "target": HERE, "lock": lock_digest}
    image_of(place).ensure()
    assert capsys.readouterr().out == ""
    # What was packed is not left.
    assert [*(place / "cache").glob(".*")] == []


# What the build step is told.


def site(**facts):
    facts = {"arch": "x86_64_v3", "release": "bookworm", **facts}
    return Site("a:b", is_here=True, architecture="x86_64", cores=2, gpus=0, **facts)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"spack": "hpcg"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpcg")),
        # Another one of the bare program's; the check's own, where bare is the site's; none, where it is asked for.
        ({"spack": f"{REPOSITORY}/spack-envs/hpl"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpl")),
        ({"modules": ("hpcg",), "default_spack": "hpcg"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpcg")),
        ({"spack": "hpcc", "recipe": "hpcc"}, ("x86_64_v3", REPOSITORY / "spack-envs" / "hpcc")),
        ({"spack": "hpcc", "recipe": "hpcc", "stack": "debian"}, None),
        # What was compiled here may not run on another release.
        ({"spack": "hpcc", "recipe": "hpcc", "release": "trixie"}, None),
        ({"spack": None, "recipe": "hpcc"}, None),
    ],
)
def test_an_image_has_the_tree_of_the_bare_program_or_its_recipes_own_software(monkeypatch, facts, expected):
    monkeypatch.setattr(shutil, "which", str)
    wanted = Wanted("HPCG", "xhpcg", **{"recipe": "hpcg", "runtime": by_name("Apptainer"), **facts})
    where = site(spack="/apps/spack", spack_site="/site/spack.yaml", caches="/shared")
    image = entry_of(software.images.provide_image(wanted, where).build[0])
    if expected is None:
        assert "tree" not in image
        return
    target, environment = expected
    parts = {"command": "/apps/spack", "directory": "/shared/spacks", "site_file": "/site/spack.yaml", "target": target}
    parts = {**parts, "kind": "spack", "packed": True, "architecture": "x86_64", "program": "bin/xhpcg"}
    assert image["tree"] == {**parts, "environment": str(environment)}
    # Debian's software will do only where there is any.
    assert image["instead"] == (wanted.recipe == "hpcc")
