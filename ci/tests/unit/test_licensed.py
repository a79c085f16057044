"""Programs that cannot be downloaded: what the site has to say of them, and what they print, in the documented form.

Nobody here has them either: made output stands in for Alya's convergence file, with its columns as its README lists
them, and a made form for PACE3D's, of which nothing is published.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from alya import Alya
from alya_output import convergence
from containercheck import SITES, Answer, Metric
from containercheck.job.outputs.reading import UnreadableError, read_answer, read_metric
from containercheck.site.extras import Software
from containercheck.site.sites import Site
from containercheck.software import Misconfigured, Unavailable, host
from reframe.core.exceptions import ReframeError

RANKS = Answer("ranks", SITES)
LUPS = Metric("LUPS", SITES, "LUPS", scaling="strong")
ENERGY = Answer("answer", SITES, rtol=1e-6)
PATTERNS = {"LUPS": r"^rate (\S+)", "ranks": r"^ranks (\d+)"}


def site(**facts):
    own = {"PACE3D": Software(**facts)} if facts else None
    return Site("a:b", is_here=True, architecture="x86_64", cores=2, gpus=0, software=own)


@pytest.mark.parametrize(
    ("facts", "needs_image", "kind", "said"),
    [
        ({}, False, Unavailable, "no software: PACE3D cannot be downloaded: name program, options and input in site"),
        # Half an entry is a mistake.
        ({"executable": "pace3d"}, False, Misconfigured, "no input: that of PACE3D cannot be downloaded: name it in"),
        ({"input": "/case"}, True, Unavailable, "no image: PACE3D cannot be built: name a ready one, or a tree to"),
    ],
)
def test_what_the_site_does_not_name_is_a_skip_or_an_error_that_says_where_to(facts, needs_image, kind, said):
    with pytest.raises(kind) as error:
        host.require_licensed("PACE3D", site(**facts), "", needs_image)
    assert str(error.value).startswith(said)
    assert "extras of a:b: containercheck: software: PACE3D" in str(error.value)
    whole = {**facts, "executable": "pace3d", "input": "/case", "image": "/pace3d.sif"}
    host.require_licensed("PACE3D", site(**whole), "", needs_image)


def test_patterns_are_filled_in_and_an_answer_without_one_is_left_out():
    found = host.filled_in("PACE3D", site(patterns=PATTERNS), [LUPS], [ENERGY], RANKS)
    assert found == ([replace(LUPS, pattern=r"^rate (\S+)")], [], Answer("ranks", r"^ranks (\d+)"))
    given = {**PATTERNS, "answer": r"^energy (\S+)"}
    _, (answer,), _ = host.filled_in("PACE3D", site(patterns=given), [LUPS], [ENERGY], RANKS)
    assert (answer.pattern, answer.rtol) == (r"^energy (\S+)", 1e-6)
    # A pattern that the check has is its own.
    known = Metric("assembly", r"^a (\S+)", "s")
    assert host.filled_in("PACE3D", site(patterns={"ranks": r"(\d)"}), [known], [], RANKS)[0] == [known]


def test_a_pattern_of_nothing_that_the_check_has_is_an_error():
    given = {**PATTERNS, "lups": r"(\d)"}
    with pytest.raises(ReframeError, match=r"PACE3D, patterns: PACE3D has no lups; it has LUPS, answer, ranks$"):
        host.filled_in("PACE3D", site(patterns=given), [LUPS], [ENERGY], RANKS)


@pytest.mark.parametrize("facts", [{"options": ["-v"]}, {"patterns": PATTERNS}])
def test_a_check_that_knows_its_own_takes_no_options_and_no_patterns(facts):
    with pytest.raises(ReframeError, match=r"software: PACE3D: it knows its own options and patterns: leave them out"):
        host.refuse_patterns("PACE3D", site(**facts))
    host.refuse_patterns("PACE3D", site(tolerance=3.0))


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_input_is_put_into_the_working_directory(tmp_path, kind):
    work, source = tmp_path / "work", tmp_path / "the input"
    work.mkdir()
    if kind == "directory":
        (source / "mesh").mkdir(parents=True)
        (source / "case.dat").write_text("case")
    else:
        source.write_text("case")
    subprocess.run(["sh", "-ec", host.copy_command(str(source))], cwd=work, check=True)
    names = {"directory": ["case.dat", "mesh"], "file": ["the input"]}[kind]
    assert sorted(path.name for path in work.iterdir()) == names


def test_assembly_and_solver_are_the_means_of_all_steps(tmp_path):
    (tmp_path / "out").write_text(convergence(20))
    assert {metric.name: read_metric(metric, tmp_path) for metric in Alya.metrics} == pytest.approx(
        {"assembly": 1.105, "solver": 0.605, "step": 1.71}
    )
    assert read_answer(Alya.answers[0], tmp_path) == 20
    # A run that ended early has fewer steps, or none.
    (tmp_path / "out").write_text(convergence(3))
    assert read_answer(Alya.answers[0], tmp_path) == 3
    (tmp_path / "out").write_text(convergence(0))
    with pytest.raises(UnreadableError, match="metric assembly not found"):
        read_metric(Alya.metrics[0], tmp_path)
