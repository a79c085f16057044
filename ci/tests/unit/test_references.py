"""References: what a file must say, and what becomes of one that does not."""

from __future__ import annotations

import math
import runpy
import types
from dataclasses import replace

import imb
import iozone
import pytest
import yaml
from application_files import check_of
from conftest import REPOSITORY
from containercheck import Metric
from containercheck.application import references
from containercheck.site.sites import Site
from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestDict, RegressionTestPlugin, _ReferenceDict
from reframe.utility.sanity import reference_bounds

CHECKS = REPOSITORY / "checks"
SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=8, gpus=0)


#: Files of published numbers that no case can be held against: they say why.
COMMENTS = {"Amber", "BTMZCollocation", "DGEMM", "GROMACSNative", "OpenFOAM", "QuantumEspressoMPI"}


def test_a_file_of_comments_only_is_of_a_check_and_gives_no_case_a_reference():
    empty = set()
    for path in (CHECKS / "references").glob("*.yaml"):
        tree = yaml.safe_load(path.read_text())[path.stem]
        if set(tree) == {"$index"}:
            empty.add(path.stem)
            assert {"$partition", "variant", "num_nodes"} | check_of(path.stem).raw_params.keys() >= set(tree["$index"])
            assert of_case(tree) == {}
    assert empty == COMMENTS


def test_a_file_has_its_key_which_may_have_axes_of_the_check(tmp_path):
    assert references.file_of(SITE, str(tmp_path), "Planted") == {}
    path = tmp_path / "references" / "Planted.yaml"
    path.parent.mkdir()
    path.write_text(f"Planted:\n  {references.INDEX[:-1]}, size, mode]\n")
    assert references.file_of(SITE, str(tmp_path), "Planted") == {"$ref": "references/Planted.yaml"}
    for text in ("Planted:\n  generic: {}\n", f"Other:\n  {references.INDEX}\n"):
        path.write_text(text)
        with pytest.raises(ReframeError, match=r"references/Planted.yaml must begin with"):
            references.file_of(SITE, str(tmp_path), "Planted")


#: Partitions of the site files, and ReFrame's own.
PARTITIONS = {"generic:default"} | {
    f"{system['name']}:{partition['name']}"
    for path in (REPOSITORY / "config").glob("*.py")
    for system in runpy.run_path(str(path))["site_configuration"].get("systems", [])
    for partition in system["partitions"]
}


def metrics_of(check, where):
    """Return the metrics of a case by name; of IOzone those of its reports, of IMB those of all sizes."""
    if check.__name__ == "IOzone":
        metrics = [iozone.report(title) for title in iozone.MODES[where["access"]][1]]
    else:
        of_sizes = (imb.latency, imb.bandwidth, imb.allreduce) if check.__name__ == "IMB" else ()
        metrics = [*check.metrics, *(of(size) for of in of_sizes for size in imb.ALL_SIZES)]
    return {metric.name: metric for metric in metrics}


def entries(tree, depth):
    """Return the keys, and what they lead to, of all entries of a file."""
    if depth == 0:
        return [((), tree)]
    return [((key, *more), found) for key, below in tree.items() for more, found in entries(below, depth - 1)]


def unjudgeable(name, width, metric, usual):
    """Return why an expected overhead judges nothing: a range without an end, or one that no night resolves."""
    if math.isinf(width):
        return [f"{name} has one end only"]
    tolerance = usual if metric.tolerance is None else metric.tolerance
    is_narrow = metric.compare != "difference" and width < tolerance
    return [f"{name} has a range of {width:g} %, less than the tolerance"] if is_narrow else []


def mistakes(path):
    """Return what is wrong in a file of references: each entry is looked up by ReFrame, for a case that it is of."""
    tree = yaml.safe_load(path.read_text())[path.stem]
    index = tree.pop("$index")
    check = check_of(path.stem)
    found = []
    for keys, entry in entries(tree, len(index)):
        where = dict(zip(index, keys))
        partition = where.pop("$partition")
        if partition not in PARTITIONS:
            found.append(f"no partition {partition}")
        for name, value in where.items():
            # These axes have more values on the system of the reference than on this one.
            others = {"num_nodes": (1, 2, 4, 8, 16, 32, 64, 128, 256), "ranks": (1, 2, 4, 7, 14)}
            others["input"] = ("embedded", "published")
            values = (*others.get(name, ()), *(() if name in ("num_nodes", "input") else check.raw_params[name].values))
            if value not in values:
                found.append(f"{name} is never {value!r}")
        case = types.new_class(path.stem, (RegressionTestPlugin,))()
        vars(case).update(where, prefix=str(CHECKS), current_partition=types.SimpleNamespace(fullname=partition))
        read = dict(_ReferenceDict({"$ref": str(path)}, test=case)[case])
        if read != {name: tuple(values) for name, values in entry.items()}:
            found.append(f"{keys}: ReFrame reads {read}")
        for name, (value, low, high, _) in read.items():
            lowest, highest = reference_bounds(value, low, high)
            metric = metrics_of(check, where).get(name.removesuffix("_overhead"))
            if metric is None:
                found.append(f"no metric {name}")
            elif name.endswith("_overhead"):
                found += unjudgeable(name, highest - lowest, metric, check.tolerance)
    return found


@pytest.mark.parametrize("path", sorted((CHECKS / "references").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_ours_is_found_by_the_case_that_it_is_of(path):
    assert references.file_of(SITE, str(CHECKS), path.stem) == {"$ref": f"references/{path.name}"}
    assert mistakes(path) == []


def test_the_published_overhead_of_an_input_is_not_that_of_the_default_one():
    tree = yaml.safe_load((CHECKS / "references" / "GROMACS.yaml").read_text())["GROMACS"]
    assert of_case(tree, "published", "aris:gpu", 16) == {"rate_overhead": [75.0, -0.05, 0.05, "%"]}
    assert of_case(tree, "embedded", "aris:gpu", 16) == {}


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
    # The directory is made after ten nights: containercheck references --write.
    before = replace(SITE, references=str(tmp_path / "nowhere"))
    assert references.file_of(before, str(tmp_path / "ours"), "Planted") == {"$ref": "references/Planted.yaml"}


METRICS = [Metric("rate", r"(\S+)", "x"), Metric("time", r"(\S+)", "s")]


def test_expected_overheads_are_told_from_absolute_references():
    found = {"rate": (10, -0.1, 0.1, "x"), "rate_baseline": (12, -0.1, None, "x"), "rate_overhead": (80, -0.25, 0.1)}
    absolute, expected = references.split(found, METRICS)
    assert absolute == {"rate": (10, -0.1, 0.1, "x"), "rate_baseline": (12, -0.1, None, "x")}
    assert expected == {"rate": pytest.approx((80, 60, 88))}
    assert references.split({}, METRICS) == ({}, {})


def test_a_bound_that_is_not_given_is_infinite():
    found = {"rate_overhead": (80, -0.25, None), "time_overhead": (10, None, 0.5, "%")}
    _, expected = references.split(found, METRICS)
    assert expected == {"rate": (80, 60, math.inf), "time": (10, -math.inf, 15)}
    assert references.accepted([*METRICS, Metric("own", r"(\S+)", "x", tolerance=3.0)], expected, {}, 5.0) == {
        "rate": {"accepted": (60, math.inf), "expected": 80},
        "time": {"accepted": (-math.inf, 15), "expected": 10},
        "own": {"accepted": (-math.inf, 3.0), "expected": None},
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate_overhead": (0, 0, 0)}, "rate_overhead: no overhead lies between 0 and 0"),
        ({"rate_overhead": (10, 0.1, 0.5)}, "rate_overhead: invalid low threshold value: 0.1"),
        ({"speed_overhead": (1, 0, 0)}, "an overhead is expected of speed: no metric of the check"),
    ],
)
def test_an_overhead_of_nothing_is_named_before_the_job(given, said):
    with pytest.raises(ReframeError, match=said):
        references.split(given, METRICS)


def test_what_other_cases_of_the_check_have_may_be_named_and_is_not_expected_here():
    """As of IMB at all sizes, in a case that measures a few of them."""
    known = references.metric_names("Code", METRICS)
    assert references.metric_names("Code", [Metric("latency", "(x)", "us")]) == known | {"latency"}
    found = {"rate_overhead": (10.0, None, 0.5), "latency_overhead": (10.0, None, 0.5)}
    _, expected = references.split(found, METRICS, references.metric_names("Code"))
    assert {*expected} == {"rate"}
    assert references.metric_names("Other") == set()


class Case(RegressionTestPlugin):
    """What ReFrame asks a check for to find its references."""

    variant = "generic"


def of_case(references_by_key, run_input="embedded", partition="cluster:compute", nodes=2):
    case = Case()
    case.input, case.num_nodes = run_input, nodes
    case.current_partition = types.SimpleNamespace(fullname=partition)
    case.reference = RegressionTestDict(references_by_key)
    return references.case_references(case)


def test_a_case_has_the_references_of_its_keys_and_another_one_has_none():
    facts = {"rate": (1, 0, 0)}
    index = ["$partition", "variant", "num_nodes"]
    assert of_case({"$index": index, "cluster:compute": {"generic": {2: facts}}}) == facts
    assert of_case({"$index": index, "cluster:compute": {"generic": {4: facts}}}) == {}
    assert of_case({"$index": index, "other:compute": {"generic": {2: facts}}}) == {}
    assert of_case({}) == {}
