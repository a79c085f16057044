"""Doctor's answers on cases: those whose runtime the nodes lack will not run."""

from __future__ import annotations

from containercheck.command import doctor
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.results.cases import collect
from containercheck.session.inventories import Answer
from made import case

APPTAINER = RUNTIMES[0].name


def answer(*there, platforms=(APPTAINER,)):
    facts = {"host": {"name": "node1"}, "runtimes": [{"name": name} for name in there]}
    return Answer("cluster:compute", False, facts, platforms=platforms)


def cases():
    return collect([{"runs": [{"testcases": [case(variant="bare"), case(variant="generic")]}]}])


def test_where_nodes_lack_the_runtimes_that_the_site_names_containers_will_not_run():
    found = doctor.with_runtimes([answer("Docker")], cases())
    assert {case.variant: case.result for case in found} == {"bare": "pass", "generic": "skip"}
    assert not doctor.can_compare(found)
    (skipped,) = (case for case in found if case.result == "skip")
    assert f"the site's file names {APPTAINER} in container_platforms, and node1 has Docker" in skipped.skip_reason


def test_where_one_of_them_is_there_and_where_nothing_is_known_they_stand_as_reframe_says():
    both = answer("Docker", platforms=(APPTAINER, "Docker"))
    for told in (answer(APPTAINER), both, answer(platforms=()), Answer("cluster:compute", False, problem="no job")):
        assert doctor.can_compare(doctor.with_runtimes([told], cases()))
