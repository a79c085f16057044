"""Programs in C++ and Python environments are built once into a cache, or not at all: by the machine's own tools."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import REPOSITORY, entry_command, entry_of, log_of, write_program
from containercheck import software
from containercheck.job import contract
from containercheck.site.sites import Site
from containercheck.software import Wanted, sources
from muelu import MueLu
from palabos import Palabos

HERE = platform.machine()
CODE = '#include "tiny.h"\n#include <cstdio>\nint main() { std::printf("%d %d\\n", NUMBER, OTHER); }\n'


@pytest.fixture
def place(tmp_path):
    """Write a program of one file, with a header of a library."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on the PATH")
    for name in ("code", "library"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "tiny.cpp").write_text(CODE)
    (tmp_path / "library" / "tiny.h").write_text("#define NUMBER 1\n")
    write_program(tmp_path / "compiler", 'exec g++ "$@"')
    return tmp_path


def command(place, *options, **parts):
    """Return the command that compiles the program; the parts replace those that it usually has."""
    usual = {"source": place / "code" / "tiny.cpp", "compiler": str(place / "compiler"), "architecture": HERE}
    usual = {**usual, "options": [f"-I{place / 'library'}", *(options or ["-DOTHER=2"])], "family": "openmpi"}
    usual = {**usual, "headers": {"tiny.h": "libtiny-dev"}, "directory": place / "cache", "link": place / "tiny"}
    return entry_command("compile", name="tiny", **{**usual, **parts})


def compile_(place, *options, variables=(), **parts):
    environment = {**os.environ, **dict(variables)}
    words = command(place, *options, **parts)
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)


def said(place):
    """Return what the program prints that the link leads to."""
    return subprocess.run([place / "tiny"], capture_output=True, text=True, check=True).stdout


def programs(place):
    """Return the programs in the cache, by name."""
    return sorted(path.name for path in (place / "cache").glob("tiny-*") if path.suffix not in (".json", ".log"))


def test_a_program_is_compiled_once(place):
    first = compile_(place)
    assert first.returncode == 0, first.stderr
    assert "tiny: compiled in " in first.stdout
    assert said(place) == "1 2\n"
    again = compile_(place)
    assert "compiled in" not in again.stdout
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert [(place / "tiny").resolve().name] == programs(place)


def test_what_it_is_made_of_makes_another_program(place):
    compile_(place)
    compile_(place, "-DOTHER=3")
    assert said(place) == "1 3\n"
    (place / "code" / "beside.h").write_text("")
    compile_(place)
    write_program(place / "compiler", '[ "$1" != --version ] || echo another one; exec g++ "$@"')
    compile_(place)
    assert len(programs(place)) == 4
    # What was there before is there still.
    (place / "code" / "beside.h").unlink()
    write_program(place / "compiler", 'exec g++ "$@"')
    assert "compiled in" not in compile_(place).stdout


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (CODE.replace("NUMBER", "no_such_number"), "error: 'no_such_number' was not declared"),
        ("void absent();\nint main() { absent(); }\n", "undefined reference to `absent()'"),
    ],
)
def test_a_failure_is_told_with_its_line_and_leaves_nothing(place, code, why):
    (place / "code" / "tiny.cpp").write_text(code)
    result = compile_(place)
    assert result.returncode == 1
    assert result.stderr.startswith("error: compiling tiny failed: ")
    assert why in result.stderr.splitlines()[0]
    assert len(result.stderr.splitlines()) == 2
    log = log_of(place / "cache", "tiny")
    assert result.stderr.splitlines()[1] == f"the whole log: {log}"
    assert why in log.read_text()
    assert programs(place) == []
    assert list((place / "cache").glob(".tiny-building-*")) == []
    assert not (place / "tiny").is_symlink()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({}, "tiny is built from source, and {compiler} finds no tiny.h: install libtiny-dev if the release has it"),
        ({"compiler": "no-such"}, "tiny is built from source, and no no-such is on the PATH: install it, or load its "),
        ({"architecture": "pdp11"}, "tiny is for pdp11, and it would be built here on "),
    ],
    ids=["header", "compiler", "architecture"],
)
def test_what_cannot_be_compiled_here_is_a_reason_for_a_skip(place, parts, reason):
    (place / "library" / "tiny.h").unlink()
    result = compile_(place, **parts)
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr.startswith(f"error: no software: {reason.format(compiler=place / 'compiler')}")
    assert result.stderr.count("\n") == 1


def test_libraries_for_another_mpi_are_a_reason_for_a_skip(place):
    library = place / "library"
    shared = ["g++", "-shared", "-Wl,--no-as-needed", "-x", "c++", "/dev/null", "-x", "none"]
    subprocess.run([*shared, "-Wl,-soname,libmpi.so.12", "-o", library / "libmpi.so.12"], check=True)
    subprocess.run([*shared, library / "libmpi.so.12", "-o", library / "libother.so"], check=True)
    result = compile_(place, "-DOTHER=2", f"-L{library}", "-lother", f"-Wl,-rpath,{library}")
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        "error: no software: the libraries that tiny is built on load libmpi.so.12 (MPICH), and the partition's MPI is "
        "Open MPI: name a program in the site's extras, software\n"
    )
    assert programs(place) == []


def test_two_that_start_at_once_compile_it_once(place):
    running = [subprocess.Popen(command(place), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sum("compiled in" in output for output in outputs) == 1
    assert len(programs(place)) == 1


def test_a_check_in_cpp_is_compiled_into_the_sites_cache():
    site = Site("a:b", is_here=False, architecture="x86_64", cores=2, gpus=0, caches="/shared")
    wanted = Wanted("Code", "code", source="code/code.cpp", compile_options=("-lx",), headers={"x.h": "libx-dev"})
    found = sources.provide_compiled(wanted, site)
    parts = {"source": f"{REPOSITORY}/checks/src/code/code.cpp", "options": ["-lx"], "headers": {"x.h": "libx-dev"}}
    parts = {**parts, "family": "openmpi", "architecture": "x86_64", "directory": "/shared/programs", "link": "code"}
    assert found.program == "./code" and entry_of(found.build[0]) == {"kind": "compile", "name": "code", **parts}
    with pytest.raises(software.Unavailable, match="architecture unknown"):
        sources.provide_compiled(wanted, replace(site, architecture=None))


def stated(check, name):
    """Return what a class states for a variable; of a class, ReFrame gives it as an object of its own."""
    value = getattr(check, name)
    return getattr(value, "default_value", value)


@pytest.mark.parametrize("check", [Palabos, MueLu])
def test_the_image_has_the_same_program_compiled_in_the_same_way(check):
    recipe = (REPOSITORY / "images" / f"{stated(check, 'recipe')}.def").read_text()
    compiled = re.search(r"mpicxx (.*?)\n +sh ", recipe.replace("\\\n", " "), re.DOTALL)[1].split()
    name = stated(check, "source").partition("/")[2]
    assert f"checks/src/{stated(check, 'source')} /usr/local/src/{name}" in recipe
    program = f"/usr/local/bin/{stated(check, 'executable')}"
    assert compiled[:5] == ["-O2", "-Wall", "-o", program, f"/usr/local/src/{name}"]
    assert compiled[5:] == list(stated(check, "compile_options"))
    # Debian's package of each header is one that the recipe installs.
    assert all(package in recipe for package in stated(check, "headers").values())


#: Requirements of a small Python environment.
PINNED = "six==1.16.0\n"


@pytest.fixture
def make(tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(PINNED)

    def run(text=None):
        if text is not None:
            requirements.write_text(text)
        parts = {"requirements": requirements, "directory": tmp_path / "cache", "link": tmp_path / "venv"}
        command = entry_command("venv", name="tiny", architecture=HERE, **parts)
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return run


def test_an_environment_is_made_once_and_made_again_when_it_is_damaged(make, tmp_path):
    first = make()
    assert first.returncode == 0, first.stderr
    assert "built in" in first.stdout
    python = tmp_path / "venv" / "bin" / "python"
    version = subprocess.run(
        [python, "-c", "import six; print(six.__version__)"], capture_output=True, text=True, check=True
    )
    assert version.stdout == "1.16.0\n"
    again = make()
    assert "built in" not in again.stdout
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    next((tmp_path / "venv").resolve().glob("lib/*/site-packages/six.py")).unlink()
    assert "is not intact, building it again" in make().stdout


def test_a_package_that_does_not_exist_leaves_no_environment(make, tmp_path):
    result = make("containercheck-has-no-such-package==1.0\n")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "containercheck-has-no-such-package" in result.stderr
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert not (tmp_path / "venv").exists()
