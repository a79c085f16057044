"""Programs in C++ are compiled once into a cache, or not at all: with the machine's own compiler, from a few lines."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import REPOSITORY, eventually, log_of
from containercheck import software
from containercheck.job import contract
from containercheck.site.sites import Site
from containercheck.software import Wanted, sources
from muelu import MueLu
from palabos import Palabos

PROGRAM = REPOSITORY / "checks" / "containercheck" / "job"
HERE = platform.machine()
CODE = '#include "tiny.h"\n#include <cstdio>\nint main() { std::printf("%d %d\\n", NUMBER, OTHER); }\n'

#: Takes the compiler's place, and waits where it is told to, once it has written half of the program.
WRAPPER = """#!/bin/sh
case " $* " in *" -MD "*) compiles=yes ;; *) compiles=no ;; esac
if [ -e {directory}/hang ] && [ $compiles = yes ]; then
    while [ $# -gt 0 ]; do [ "$1" != -o ] || echo half >"$2"; shift; done
    touch {directory}/begun
    exec sleep 600
fi
exec g++ "$@"
"""


@pytest.fixture
def place(tmp_path):
    """Write a program of one file, with a header of a library."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on the PATH")
    for name in ("code", "library"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "tiny.cpp").write_text(CODE)
    (tmp_path / "library" / "tiny.h").write_text("#define NUMBER 1\n")
    (tmp_path / "compiler").write_text(WRAPPER.format(directory=tmp_path))
    (tmp_path / "compiler").chmod(0o755)
    return tmp_path


def command(place, *options, compiler=None, architecture=HERE):
    words = ["--source", place / "code" / "tiny.cpp", "--compiler", compiler or place / "compiler"]
    words += [f"--option=-I{place / 'library'}", *(f"--option={option}" for option in options or ["-DOTHER=2"])]
    words += ["--header=tiny.h=libtiny-dev", "--architecture", architecture, "--mpi", "openmpi"]
    words += ["--cache", place / "cache", "--link", place / "tiny", "tiny"]
    return [sys.executable, str(PROGRAM), "compile", *map(str, words)]


def compile_(place, *options, **facts):
    environment = facts.pop("environment", {})
    return subprocess.run(
        command(place, *options, **facts),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


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
    assert (place / "tiny").resolve().name == programs(place)[0]


def test_what_it_is_made_of_makes_another_program(place):
    compile_(place)
    compile_(place, "-DOTHER=3")
    assert said(place) == "1 3\n"
    (place / "code" / "beside.h").write_text("")
    compile_(place)
    (place / "compiler").write_text(
        WRAPPER.format(directory=place).replace("#!/bin/sh\n", '#!/bin/sh\n[ "$1" != --version ] || echo another one\n')
    )
    compile_(place)
    assert len(programs(place)) == 4
    # What was there before is there still.
    (place / "code" / "beside.h").unlink()
    (place / "compiler").write_text(WRAPPER.format(directory=place))
    assert "compiled in" not in compile_(place).stdout


def test_a_header_that_changed_has_it_compiled_again(place):
    compile_(place)
    (place / "library" / "tiny.h").write_text("#define NUMBER 7\n")
    result = compile_(place)
    assert "older than a header that it was made with, compiling it again" in result.stdout
    assert said(place) == "7 2\n"
    assert "compiled in" not in compile_(place).stdout
    assert len(programs(place)) == 1


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (CODE.replace("NUMBER", "no_such_number"), "error: 'no_such_number' was not declared"),
        ('#include "no-such.h"\n', "fatal error: no-such.h: No such file or directory"),
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


def test_a_header_that_is_not_there_is_a_reason_for_a_skip(place):
    (place / "library" / "tiny.h").unlink()
    result = compile_(place)
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        f"error: no software: tiny is built from source, and {place / 'compiler'} finds no tiny.h: install libtiny-dev "
        "where the release has it, or name a program in the site's extras, software\n"
    )


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


def test_no_compiler_is_a_reason_for_a_skip(place):
    result = compile_(place, compiler="no-such-compiler")
    assert result.returncode == contract.UNSUPPORTED
    assert result.stderr == (
        "error: no software: tiny is built from source, and no no-such-compiler is on the PATH: install it, or load "
        "its module: modules of the site's environment\n"
    )


def test_a_program_for_another_architecture_is_not_compiled_here(place):
    result = compile_(place, architecture="pdp11")
    assert result.returncode == contract.UNSUPPORTED
    assert "tiny is for pdp11, and it would be built here on " in result.stderr
    assert not (place / "cache").exists()


def test_where_only_the_cache_counts_nothing_is_compiled(place):
    only = {contract.CACHED_ONLY: "1"}
    assert compile_(place, environment=only).returncode == 1
    assert not (place / "cache").exists()
    assert compile_(place).returncode == 0
    assert compile_(place, environment=only).returncode == 0


def test_two_that_start_at_once_compile_it_once(place):
    running = [subprocess.Popen(command(place), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sum("compiled in" in output for output in outputs) == 1
    assert len(programs(place)) == 1


def test_a_killed_compilation_leaves_nothing_that_is_taken_for_a_program(place):
    (place / "hang").touch()
    process = subprocess.Popen(command(place), start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        assert eventually((place / "begun").exists, patience=600)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert list((place / "cache").glob(".tiny-building-*/program"))
    assert programs(place) == []
    (place / "hang").unlink()
    result = compile_(place)
    assert result.returncode == 0, result.stderr
    assert said(place) == "1 2\n"
    assert list((place / "cache").glob(".tiny-building-*")) == []


def test_a_check_in_cpp_is_compiled_into_the_sites_cache():
    site = Site("a:b", is_here=False, architecture="x86_64", cores=2, gpus=0, program_cache="/shared/programs")
    wanted = Wanted("Code", "code", source="code/code.cpp", compile_options=("-lx",), headers={"x.h": "libx-dev"})
    found = sources.provide_compiled(wanted, site)
    (build,) = found.build
    assert found.program == "./code"
    assert " compile --cache /shared/programs --architecture x86_64 --mpi openmpi " in build
    assert "--header=x.h=libx-dev --option=-lx --source " in build
    assert build.endswith("/checks/src/code/code.cpp --link code code")


def test_a_partition_of_unknown_architecture_is_a_reason_for_a_skip():
    site = Site("a:b", is_here=False, architecture=None, cores=2, gpus=0)
    with pytest.raises(software.Unavailable, match="architecture unknown"):
        sources.provide_compiled(Wanted("Code", "code", source="code/code.cpp"), site)


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
