"""References: what a file must say, and what becomes of one that does not."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY
from containercheck import Figure, references
from containercheck.sites import Site
from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestDict, RegressionTestPlugin

CHECKS = REPOSITORY / "checks"
SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=8, gpus=0)


def test_no_file_is_no_reference(tmp_path):
    assert references.file_of(SITE, str(tmp_path), "Planted") == {}


@pytest.mark.parametrize("path", sorted((CHECKS / "references").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_ours_is_keyed(path):
    assert references.file_of(SITE, str(CHECKS), path.stem) == {"$ref": f"references/{path.name}"}


@pytest.mark.parametrize("text", ["Planted:\n  generic: {}\n", "Other:\n  $index: [$partition, variant, num_nodes]\n"])
def test_file_that_is_not_keyed_is_named(tmp_path, text):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "Planted.yaml").write_text(text)
    with pytest.raises(ReframeError, match=r"references/Planted.yaml must begin with"):
        references.file_of(SITE, str(tmp_path), "Planted")


def test_the_sites_own_take_the_place_of_ours(tmp_path):
    for directory in ("ours/references", "site"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "Planted.yaml").write_text(f"Planted:\n  {references.INDEX}\n")
    (tmp_path / "ours" / "references" / "Other.yaml").write_text(f"Other:\n  {references.INDEX}\n")
    site = replace(SITE, references=str(tmp_path / "site"))
    found = {name: references.file_of(site, str(tmp_path / "ours"), name) for name in ("Planted", "Other", "None")}
    assert found == {
        "Planted": {"$ref": str(tmp_path / "site" / "Planted.yaml")},
        "Other": {"$ref": "references/Other.yaml"},
        "None": {},
    }


def test_a_directory_of_the_site_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ReframeError, match="extras of cluster:compute: references: no directory .*/nowhere"):
        references.file_of(replace(SITE, references=str(tmp_path / "nowhere")), str(tmp_path), "Planted")


FIGURES = [Figure("rate", r"(\S+)", "x"), Figure("time", r"(\S+)", "s")]


def test_expected_overheads_are_told_from_absolute_references():
    found = {"rate": (10, -0.1, 0.1, "x"), "rate_baseline": (12, -0.1, None, "x"), "rate_overhead": (80, -0.25, 0.1)}
    absolute, expected = references.split(found, FIGURES)
    assert absolute == {"rate": (10, -0.1, 0.1, "x"), "rate_baseline": (12, -0.1, None, "x")}
    assert expected == {"rate": pytest.approx((60, 88))}
    assert references.split({}, FIGURES) == ({}, {})


def test_a_bound_that_is_not_given_is_infinite():
    found = {"rate_overhead": (80, -0.25, None), "time_overhead": (10, None, 0.5, "%")}
    _, expected = references.split(found, FIGURES)
    assert expected == {"rate": (60, math.inf), "time": (-math.inf, 15)}


def test_an_overhead_of_no_figure_is_named():
    with pytest.raises(ReframeError, match=r"an overhead is expected of latency, speed: no figure of the check"):
        references.split({"speed_overhead": (1, 0, 0), "latency_overhead": (1, 0, 0)}, FIGURES)


class Case(RegressionTestPlugin):
    """What ReFrame asks a check for to find its references."""

    variant = "generic"
    num_nodes = 2
    current_partition = SimpleNamespace(fullname="cluster:compute")


def of_case(references_by_key):
    case = Case()
    case.reference = RegressionTestDict(references_by_key)
    return references.of_case(case)


def test_a_case_has_the_references_of_its_keys_and_another_one_has_none():
    facts = {"rate": (1, 0, 0)}
    index = ["$partition", "variant", "num_nodes"]
    assert of_case({"$index": index, "cluster:compute": {"generic": {2: facts}}}) == facts
    assert of_case({"$index": index, "cluster:compute": {"generic": {4: facts}}}) == {}
    assert of_case({"$index": index, "other:compute": {"generic": {2: facts}}}) == {}
    assert of_case({}) == {}
