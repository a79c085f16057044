"""Proposed references: the rule, what of the database counts, and what becomes of the files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import made
import numpy as np
import pytest
import yaml
from conftest import write_site
from containercheck.application import references
from containercheck.command import main
from containercheck.command.references import QUANTILE, NoReference, Reference, put
from containercheck.session.reframe_process import Workplace

NIGHTS = [100, 101, 99, 102, 98, 100.5, 99.5, 101, 99, 100, 100, 100]


@pytest.mark.parametrize("count", [10, 20, 60])
def test_another_night_leaves_the_range_in_one_of_1000_cases(count):
    draws = np.random.default_rng(1).standard_normal((100_000, count + 1))
    nights, after = draws[:, :-1], draws[:, -1]
    middle = np.median(nights, axis=1)
    deviation = np.median(abs(nights - middle[:, None]), axis=1)
    # What Reference.of makes of them, checked on one, for it takes a night after the other.
    found = Reference.of(1000 + 100 * nights[0], "higher")
    factor = QUANTILE * (1 + 7.4 / (count - 3.8)) * 1.4826 * count / (count - 0.8)
    assert found.lower == pytest.approx(-factor * deviation[0] / (10 + middle[0]), abs=1.1e-3)
    left = np.mean(after < middle - factor * deviation)
    assert 0.0005 < left < 0.0015


def test_the_range_has_no_end_on_the_better_side_and_resists_a_sick_node():
    assert Reference.of(NIGHTS, "higher").upper is None
    assert Reference.of(NIGHTS, "lower").lower is None
    both = Reference.of(NIGHTS)
    assert (both.value, both.lower) == (100, -both.upper)
    assert -0.1 < both.lower < -0.03
    assert Reference.of([*NIGHTS, 50]).lower == pytest.approx(Reference.of([*NIGHTS, 98]).lower, abs=0.01)
    equal = Reference.of([3.0] * 10)
    assert (equal.lower, equal.upper, equal.spread) == (-0.02, 0.02, 0)


@pytest.mark.parametrize(
    ("nights", "why"),
    [
        ([1.0] * 9, r"9 night\(s\), 10 are needed"),
        ([0.0] * 12, "not above 0"),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "any value would do"),
    ],
)
def test_what_makes_no_reference_is_told(nights, why):
    with pytest.raises(NoReference, match=why):
        Reference.of(nights)


FILE = """# By hand.
Fine:
  $index: [$partition, variant, num_nodes]
  "here:one":
    bare:
      # Why it is expected.
      1:
        rate_overhead: [4.0, null, 4.0, "%"]  # measured
      # What follows.
      2:
        rate: [7, -0.1, 0.1, x]
# The end.
"""
COMMENT = "# median of 10 nights to 2026-01-01, spread 1 %"


def test_an_entry_is_put_below_its_keys_and_nothing_else_changes():
    text = put(FILE, ("Fine", "here:one", "bare", 1, "rate"), (5.0, -0.1, None, "x"), COMMENT)
    new = f"        rate: [5.0, -0.1, null, x]  {COMMENT}\n"
    assert text == FILE.replace("# measured\n", f"# measured\n{new}")
    # Once more, it takes the place of the older one.
    again = put(text, ("Fine", "here:one", "bare", 1, "rate"), (6e-7, None, 0.1, "%"), COMMENT)
    assert again == text.replace("[5.0, -0.1, null, x]", "[6.0e-07, null, 0.1, '%']")
    assert yaml.safe_load(again)["Fine"]["here:one"]["bare"][1]["rate"][0] == 6e-7


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (("here:one", "generic", 1), ["    generic:", "      1:", "        rate: "]),
        (("here:other", "bare", 4), ['  "here:other":', "    bare:", "      4:", "        rate: "]),
    ],
)
def test_keys_that_are_missing_are_put_too(keys, lines):
    text = put(FILE, ("Fine", *keys, "rate"), (5.0, -0.1, None, "x"), COMMENT)
    assert text.startswith(FILE.removesuffix("# The end.\n"))
    assert text.endswith("# The end.\n")
    new = text[len(FILE) - len("# The end.\n") : -len("# The end.\n")].splitlines()
    assert [line.partition("[")[0] for line in new] == lines
    (partition, variant, nodes) = keys
    assert yaml.safe_load(text)["Fine"][partition][variant][nodes] == {"rate": [5.0, -0.1, None, "x"]}


@pytest.mark.parametrize(
    ("text", "keys", "why"),
    [
        (FILE, ("Fine", "here:one", "bare", 2, "rate"), "line 11 was written by hand"),
        (FILE.replace("here:one", "here:.*"), ("Fine", "here:one", "bare", 1, "rate"), "line 4, 'here:.*', speaks for"),
        ("Fine: {}\n", ("Fine", "here:one", "bare", 1, "rate"), "line 1 has no keys"),
        ("", ("Fine", "here:one", "bare", 1, "rate"), "line 1 has no keys"),
        ("Fine: [\n", ("Fine", "here:one", "bare", 1, "rate"), "no YAML"),
    ],
)
def test_what_somebody_wrote_is_left_alone(text, keys, why):
    with pytest.raises(NoReference, match=why):
        put(text, keys, (5.0, -0.1, None, "x"), COMMENT)


def write_settings(path, **extras):
    write_site(path, {"one": {"launcher": "local", "extras": {"containercheck": extras}}})


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a place with a site file and an empty database's name."""
    for name in [name for name in os.environ if name.startswith("RFM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RFM_CONFIG_FILES", str(tmp_path / "site.py"))
    write_settings(tmp_path / "site.py")
    (tmp_path / "common.py").write_text(
        f"site_configuration = {{'storage': [{{'enable': True, 'sqlite_db_file': '{tmp_path}/results.db'}}]}}\n"
    )
    (tmp_path / "checks" / "references").mkdir(parents=True)
    return Workplace(tmp_path, config=tmp_path / "common.py")


@pytest.fixture
def night(place):
    """Store a session of a night, so many nights ago."""
    stored = []

    def store(ago, rate, change=lambda case: None):
        # Two o'clock in the morning.
        ended = datetime.now().replace(hour=2, minute=0) - timedelta(days=ago)
        on = {"system": "here", "partition": "one"}
        cases = [made.case("Fine", "bare", rows=[made.alone("rate", rate, unit="x")], **on)]
        for size in (1, 2):
            rows = [made.alone("rate", rate * size, unit="x")]
            cases.append(made.case("Sized", "bare", rows=rows, axes=f" %size={size}", size=size, **on))
        for case in cases:
            case.update(job_completion_time_unix=ended.timestamp())
            change(case)
        times = {"time_start_unix": ended.timestamp(), "time_end_unix": ended.timestamp()}
        info = {"uuid": str(len(stored)), "nightly": ended.date().isoformat(), **times}
        stored.append({"session_info": info, "runs": [{"testcases": cases}]})
        database = place.directory / "results.db"
        database.unlink(missing_ok=True)
        made.store(database, stored)

    return store


@pytest.fixture
def nights(night):
    """Store a night for each of some rates, the last one yesterday."""

    def store(rates, change=lambda case: None):
        for ago, rate in reversed([*enumerate(rates, 1)]):
            night(ago, rate, change)

    return store


@pytest.fixture
def run(place, capsys):
    """Run the command; return its exit status, the diff, and what it says."""

    def of(*arguments):
        status = main.run("references", arguments, place)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return of


def lines_of(diff, sign):
    return [line[1:] for line in diff.splitlines() if line.startswith(sign) and not line.startswith(sign * 3)]


def test_nights_become_a_diff_and_the_site_gets_what_it_accepts(place, night, nights, run):
    nights(NIGHTS)
    # What failed is no value.
    night(13, 7, lambda case: case.update(result="fail", results=[]))
    ours = place.directory / "checks" / "references" / "Fine.yaml"
    ours.write_text(FILE)
    status, diff, said = run("-n", "Fine")
    assert (status, said) == (0, "")
    yesterday = (datetime.now() - timedelta(days=1)).date()
    new = rf"        rate: \[100\.0, -0\.\d+, null, x\]  # median of 12 nights to {yesterday}, spread \d.\d %"
    (line,) = lines_of(diff, "+")
    assert re.fullmatch(new, line), diff
    assert diff.startswith(f"--- {ours}\n+++ {ours}\n")
    assert lines_of(diff, "-") == []
    assert ours.read_text() == FILE
    # Nothing goes into the checkout, unless somebody says so.
    status, diff, said = run("-n", "Fine", "--write")
    assert (status, diff) == (2, "")
    assert "names no directory for references of here:one" in said
    own = place.directory / "site"
    write_settings(place.directory / "site.py", references=str(own))
    status, diff, said = run("-n", "Fine", "--write")
    assert (status, said) == (0, f"references: written: {own}/Fine.yaml\n")
    assert diff.startswith(f"--- {ours}\n+++ {own}/Fine.yaml\n")
    assert (ours.read_text(), [path.name for path in own.iterdir()]) == (FILE, ["Fine.yaml"])
    assert (own / "Fine.yaml").read_text().replace(f"{line}\n", "") == FILE
    status, diff, said = run("-n", "Fine")
    assert (status, diff, said) == (0, "", "references: 1 reference(s) are in force already\n")
    # What ReFrame then reads.
    assert references.INDEX in (own / "Fine.yaml").read_text()


def test_what_is_written_is_a_gate(place, night, nights, run):
    nights([rate / 100 for rate in NIGHTS], lambda case: case["results"][0].update(better="lower"))
    assert run("-n", "Fine", "--write", str(place.directory / "mine"))[0] == 0
    text = (Path(__file__).parents[1] / "slow_checks.py").read_text()
    old = 'self.reference = {"*": {"rate": (1, -0.1, 0.1, "x")}}'
    assert old in text
    (place.directory / "checks" / "made.py").write_text(
        text.replace(old, f'self.reference = {{"$ref": "{place.directory}/mine/Fine.yaml"}}')
    )
    for number, status in (("1", 0), ("2", 1)):
        (place.directory / "Fine.one").unlink(missing_ok=True)
        words = ["reframe", "--nocolor", "-c", "checks", "-r", "-n", "Fine", "-S", f"Fine.numbers={number}"]
        words[0] = str(Path(sys.executable).parent / words[0])
        result = subprocess.run(words, cwd=place.directory, text=True, stdout=subprocess.PIPE)
        assert result.returncode == status, result.stdout
        assert ("failed to meet reference(s): rate=2.0 x, expected 1.0" in result.stdout) == (number == "2")


def test_a_check_with_an_axis_begins_a_file_that_is_keyed_by_it(place, night, nights, run):
    nights(NIGHTS)
    status, diff, _ = run("--write", str(place.directory / "mine"), "-n", "Sized")
    assert status == 0
    assert diff.startswith("--- /dev/null\n")
    found = yaml.safe_load((place.directory / "mine" / "Sized.yaml").read_text())["Sized"]
    assert found["$index"] == ["$partition", "variant", "num_nodes", "size"]
    assert {size: metrics["rate"][0] for size, metrics in found["here:one"]["bare"][1].items()} == {1: 100, 2: 200}
    # One that is not keyed by it cannot tell them apart, unless one has run in more nights.
    ours = place.directory / "checks" / "references" / "Sized.yaml"
    ours.write_text("Sized:\n  $index: [$partition, variant, num_nodes]\n  x: {}\n")
    status, diff, said = run("-n", "Sized")
    assert (status, diff) == (2, "")
    assert "here:one, 1 node(s): the file's $index does not distinguish 2 cases" in said
    night(0, 100, lambda case: case.update(results=[] if case.get("size") == 2 else case["results"]))
    assert "rate: [100.0, " in run("-n", "Sized")[1]


def test_nights_with_another_input_are_left_out(place, night, nights, run):
    for ago in (21, 20):
        night(ago, 5, lambda case: case["expected"].update(amount=7))
    nights(NIGHTS)
    status, diff, _ = run("-n", "Fine")
    assert status == 0
    assert "rate: [100.0, " in diff and "median of 12 nights" in diff


def test_too_few_nights_are_told_and_propose_nothing(place, night, nights, run):
    nights(NIGHTS[:9])
    status, diff, said = run("-n", "Fine")
    assert (status, diff) == (2, "")
    assert said.splitlines() == [
        "references: Fine, here:one, 1 node(s): 9 night(s), 10 are needed",
        "references: error: there is nothing to propose",
    ]


def test_what_cannot_be_read_is_one_line(place, night, nights, run):
    status, diff, said = run()
    assert (status, diff) == (2, "")
    writers = "containercheck run or containercheck nightly writes it"
    missing = f"there is no results database {place.directory}/results.db: {writers}"
    assert said == f"references: error: {missing}\n"
    assert not (place.directory / "results.db").exists()
    night(1, 1.0)
    for arguments, why in (
        (("-n", "Nowhere"), "no night of the last 90 days has a matching bare value"),
        (("-n", "("), "-n (: "),
        (("--system", "nowhere"), "could not find a configuration entry"),
    ):
        status, diff, said = run(*arguments)
        assert (status, diff) == (2, "")
        assert why in said
        assert len(said.splitlines()) == 1
