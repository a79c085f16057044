"""Published inputs are fetched once, and only the pinned ones: from a real server, and by a real check."""

from __future__ import annotations

import json
import subprocess
import tarfile

import pytest
from conftest import REPOSITORY, entry_command
from served import pin, served  # noqa: F401


@pytest.fixture
def fetch(tmp_path):
    def run(reference):
        command = entry_command(
            "download", reference=reference, directory=tmp_path / "cache", link=tmp_path / "published"
        )
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


def archive(directory):
    """Write a gzipped tar archive with one directory and one file in it."""
    (directory / "case").mkdir()
    (directory / "case" / "topol.tpr").write_text("input\n")
    path = directory / "case.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(directory / "case", "case")
    return path


def test_a_file_is_fetched_once(served, fetch, tmp_path):
    directory, address = served
    file = directory / "text.txt"
    file.write_text("some words\n")
    reference = f"{address}/text.txt{pin(file)}"
    first = fetch(reference)
    assert first.returncode == 0, first.stderr
    # A damaged file is fetched again, and so is one whose record has another pin that begins like this one.
    (tmp_path / "published").write_text("OTHER words")
    assert "is not intact, building it again" in fetch(reference).stdout
    (record,) = (tmp_path / "cache").glob("*.json")
    known = json.loads(record.read_text())
    record.write_text(json.dumps({**known, "pin": known["pin"][:12] + 52 * "0"}))
    assert "is not intact, building it again" in fetch(reference).stdout
    assert (tmp_path / "published").read_text() == "some words\n"
    file.unlink()
    again = fetch(reference)
    assert again.returncode == 0, again.stderr
    assert "built in" not in again.stdout


def test_an_archive_is_unpacked(served, fetch, tmp_path):
    directory, address = served
    file = archive(directory)
    assert fetch(f"{address}/case.tar.gz{pin(file)}").returncode == 0
    assert (tmp_path / "published" / "case" / "topol.tpr").read_text() == "input\n"
    assert fetch(f"{address}/case.tar.gz{pin(file)}&subdirectory=case/topol.tpr").returncode == 0
    assert (tmp_path / "published").read_text() == "input\n"


@pytest.mark.parametrize("inside", ["case/none.tpr", "../../../../etc"])
def test_what_the_archive_does_not_have_is_named(served, fetch, inside):
    directory, address = served
    file = archive(directory)
    result = fetch(f"{address}/case.tar.gz{pin(file)}&subdirectory={inside}")
    assert result.returncode == 1
    assert f"has no {inside!r}; it has case" in result.stderr


def test_another_file_than_the_pinned_one_is_refused(served, fetch, tmp_path):
    directory, address = served
    file = directory / "text.txt"
    file.write_text("some words\n")
    reference = f"{address}/text.txt{pin(file)}"
    file.write_text("other words\n")
    result = fetch(reference)
    assert result.returncode == 1
    assert "is not the pinned one: its SHA-256 is" in result.stderr
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{address}/text.txt#sha256=12", "is not pinned: end its address with #sha256="),
        ("{address}/none.txt#sha256=" + 64 * "0", "cannot fetch the input {address}/none.txt: HTTP Error 404: "),
        ("http://127.0.0.1:1/a#sha256=" + 64 * "0", "Connection refused"),
        ("gopher://here/a#sha256=" + 64 * "0", "unknown url type"),
    ],
)
def test_mistakes_are_one_line(served, fetch, tmp_path, reference, said):
    _, address = served
    result = fetch(reference.format(address=address))
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert said.format(address=address) in result.stderr


def test_a_check_runs_the_published_input(session, served):
    directory, address = served
    file = directory / "standard.txt"
    file.write_text("zebra crossing zebra\n" * 1000)
    select = ("-n", "WordCount%variant=bare%num_nodes=1%ranks=0", "-S", "megabytes=1")
    checks = REPOSITORY / "checks" / "wordcount.py"
    reference = f"{address}/standard.txt{pin(file)}"
    result = session(*select, "-S", f"published={reference}", checks=checks)
    assert result.case("bare")["result"] == "pass", result.output
    assert result.case("bare")["provenance"]["input"] == reference
    counted = next(result.stage.rglob("rounds/01-baseline/out")).read_text()
    assert "word 1 zebra: " in counted
    wrong = session(*select, "-S", f"published={address}/standard.txt#sha256={64 * '0'}", checks=checks)
    assert wrong.status != 0
    assert "is not the pinned one" in wrong.case("bare")["fail_reason"]
