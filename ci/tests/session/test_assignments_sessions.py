"""Variables that do not exist, under ReFrame alone."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("word", "failed"),
    [
        ("NoSoftware.second=10", {"NoSoftware"}),
        ("Plantde.rounds=2", {"NoSoftware", "Planted"}),
    ],
)
def test_under_reframe_alone_the_checks_that_it_concerns_fail(session, word, failed):
    result = session("-n", "NoSoftware%variant=bare|Planted%variant=bare", "-S", word, "-S", "rounds=1")
    assert result.status == 1
    # A check that would be skipped, too: nobody looks for the reason of a skip.
    assert {case["name"].split()[0] for case in result.cases if case["result"] == "fail"} == failed
    assert f"-S {word}: " in next(case["fail_reason"] for case in result.cases if case["result"] == "fail")
