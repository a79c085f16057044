"""Word Count: its output, and the program itself against a count in Python."""

import collections
import hashlib
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from saved import metrics, problems
from wordcount import WordCount

SOURCES = REPOSITORY / "checks" / "src"


def make_text(*arguments):
    subprocess.run([sys.executable, SOURCES / "text" / "make_text.py", *arguments], check=True)


def test_the_metrics_of_a_run():
    assert metrics(WordCount, "wordcount/passing", ranks=2) == pytest.approx(
        {
            "seconds_compute": 11.4956,
            "seconds_merging": 0.0372,
            "seconds_reading": 2.5296,
            "seconds_counting": 8.9238,
            "seconds_outside": 0.6514,
            "efficiency": 90.58,
            "memory": 55.5,
        }
    )


def test_singletons_are_told_by_their_ranks():
    (problem,) = problems(WordCount, "wordcount/failing", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


def test_the_text_is_the_same_everywhere(tmp_path):
    text = tmp_path / "text.txt"
    make_text("--megabytes", "0.1", "--compounds", "0.02", text)
    assert hashlib.sha256(text.read_bytes()).hexdigest().startswith("5e4f886aec75959d")


def test_a_text_is_repeated_whole(tmp_path):
    text, source = tmp_path / "text.txt", tmp_path / "source.txt"
    source.write_text("collective communication\n" * 40)
    make_text("--source", source, "--fill", "0.0025", text)
    assert text.read_text() == source.read_text() * 3


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("mpicc") is None:
        pytest.skip("no mpicc on the PATH")
    built = tmp_path_factory.mktemp("bin") / "wordcount"
    subprocess.run(["mpicc", "-O1", "-o", built, SOURCES / "wordcount" / "wordcount.c"], check=True)
    return built


def count(program, text, ranks):
    """Return what the program printed."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), program, text]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"word",
        b"a\nb a",
        b" The  the THE, (the) e-mail 2nd 2nd n\xc3\xa4chster \n\n",
        b"x" * 9_000_000 + b" end",
        None,
    ],
    ids=["empty", "one word", "short", "mixed", "a word longer than a part", "made text"],
)
def test_every_number_of_ranks_counts_the_same(program, tmp_path, content, ranks):
    text = tmp_path / "text.txt"
    if content is None:
        make_text("--megabytes", "0.3", "--compounds", "0.05", text)
        content = text.read_bytes()
    text.write_bytes(content)
    words = collections.Counter(re.findall(rb"[a-z0-9\x80-\xff]+", content.lower()))
    printed = count(program, text, ranks)
    assert f"ranks {ranks}\nbytes {len(content)}\nwords {sum(words.values())}\ndistinct {len(words)}\n" in printed
    first = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:10]
    lines = [b"word %d %b: %d\n" % (place, word, times) for place, (word, times) in enumerate(first, 1)]
    assert b"".join(lines).decode() in printed


def test_the_checksum_tells_texts_apart(program, tmp_path):
    sums = set()
    for content in ("a b", "a b b", "b a", "a c"):
        (tmp_path / "text.txt").write_text(content)
        sums.add(re.search(r"^checksum (\d+)$", count(program, tmp_path / "text.txt", 1), re.MULTILINE)[1])
    assert len(sums) == 3
