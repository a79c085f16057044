"""The project's own programs in C, compiled as their checks do: Ping Pong, Word Count, and the matrix product."""

from __future__ import annotations

import collections
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from dgemm import DGEMM
from pingpong import CLASSES

SOURCES = REPOSITORY / "checks" / "src"


def compiled(directory, name, *options):
    """Compile a program, and return its path."""
    if shutil.which("mpicc") is None:
        pytest.skip("no mpicc on the PATH")
    path = directory / name
    strict = ["-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["mpicc", *strict, "-o", path, SOURCES / name / f"{name}.c", *options], check=True)
    return path


# Ping Pong: more ranks than cores, and by whoever runs the tests


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("bin"), "pingpong")


def test_the_map_has_each_pair_once_with_its_medians(program, tmp_path):
    options = [*MPIRUN, "-np", "3", "--wdir", tmp_path, program, "0.01"]
    printed = subprocess.run(options, capture_output=True, text=True, check=True).stdout
    with (tmp_path / "pairs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["first"], row["second"]) for row in rows] == [("0", "1"), ("0", "2"), ("1", "2")]
    classes = [row["class"] for row in rows]
    assert all(f"measured {pair} {classes.count(pair)}" in printed for pair in CLASSES)
    assert all(float(row[value]) > 0 for row in rows for value in ("latency_us", "bandwidth_MB_s"))


@pytest.mark.parametrize(("options", "measured"), [((), 10), (("4",), 4)])
def test_of_each_class_so_many_pairs_take_part(program, options, measured, tmp_path):
    command = [*MPIRUN, "-np", "5", program, "0.001", *options]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    pairs = {name: re.findall(rf"^{name} \w+ (\d+)$", said, re.MULTILINE) for name in ("pairs", "measured")}
    assert sum(map(int, pairs["pairs"])) == 10
    assert max(map(int, pairs["measured"])) == measured
    assert "wrong bytes 0" in said


# Word Count, and the text that it counts


def make_text(*arguments):
    subprocess.run([sys.executable, SOURCES / "text" / "make_text.py", *arguments], check=True)


def test_the_text_is_the_same_everywhere_and_is_repeated_whole(tmp_path):
    text, source = tmp_path / "text.txt", tmp_path / "source.txt"
    make_text("--megabytes", "0.1", "--compounds", "0.02", text)
    assert hashlib.sha256(text.read_bytes()).hexdigest().startswith("5e4f886aec75959d")
    source.write_text("collective communication\n" * 40)
    make_text("--source", source, "--fill", "0.0025", text)
    assert text.read_text() == source.read_text() * 3


@pytest.fixture(scope="module")
def wordcount(tmp_path_factory):
    """Return a function that counts the words of a file, and returns what the program printed."""
    built = compiled(tmp_path_factory.mktemp("bin"), "wordcount")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def count(text, ranks):
        command = ["mpirun", "--oversubscribe", "-np", str(ranks), built, text]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        return run.stdout

    return count


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize(
    "content",
    [b"", b" The  the THE, (the) e-mail 2nd 2nd n\xc3\xa4chster \n\n", b"x" * 9_000_000 + b" end", None],
    ids=["empty", "mixed", "a word longer than a part", "made text"],
)
def test_every_number_of_ranks_counts_the_same(wordcount, tmp_path, content, ranks):
    text = tmp_path / "text.txt"
    if content is None:
        make_text("--megabytes", "0.3", "--compounds", "0.05", text)
        content = text.read_bytes()
    text.write_bytes(content)
    words = collections.Counter(re.findall(rb"[a-z0-9\x80-\xff]+", content.lower()))
    printed = wordcount(text, ranks)
    assert f"ranks {ranks}\nbytes {len(content)}\nwords {sum(words.values())}\ndistinct {len(words)}\n" in printed
    first = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:10]
    lines = [b"word %d %b: %d\n" % (place, word, times) for place, (word, times) in enumerate(first, 1)]
    assert b"".join(lines).decode() in printed


# The matrix product in blocks


@pytest.fixture(scope="module")
def dgemm(tmp_path_factory):
    """Return a function that runs the program with these threads."""
    path = compiled(tmp_path_factory.mktemp("dgemm"), "dgemm", *DGEMM.compile_options)
    loaded = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    assert "libgomp" in loaded and "libmpi" not in loaded

    def run(*arguments, threads=1):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, env=environment)
        return done.returncode, done.stderr, dict(re.findall(r"^(\w+) (\S+)$", done.stdout, re.MULTILINE))

    return run


@pytest.mark.parametrize("block", [1, 16, 50, 101, 4096])
def test_the_product_is_right_for_any_block_and_the_same(dgemm, block):
    """Also where the last block is smaller than the others, and where there is only one."""
    (_, _, found), (_, _, whole) = dgemm(101, block), dgemm(101, 101)
    assert float(found["residual"]) < 16 and found["block"] == str(min(block, 101))
    assert float(found["norm"]) == pytest.approx(float(whole["norm"]), rel=1e-9)
