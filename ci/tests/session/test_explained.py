"""Faults planted in a container are named and proven by experiment, one that no rule knows too; a clean one is not.

Of them, one ends each run of the container.
"""

from __future__ import annotations

import re

import faults
from planted_causes import FAULTS

#: One of each kind: a variable, and processors; one that no rule knows, none at all, and one that ends runs.
CHOSEN = ("blas-kernels", "processors", "unknown", "none", "stack-ends")


def test_planted_causes_are_proven_and_nothing_else_is(tmp_path):
    results, printed = faults.run(list(CHOSEN), tmp_path / "place")
    assert set(results) == {*CHOSEN}, printed
    ends = results["stack-ends"]
    assert ends.proves(FAULTS["stack-ends"]), ends.reason
    found = r"proven: with the limit of stack size at \S+ all of 5 runs ended well, and 0 of 3 without"
    assert re.search(found, ends.reason), ends.reason
    assert "no memory for the stack" in ends.reason
    for name in CHOSEN[:2]:
        fault, result = FAULTS[name], results[name]
        assert result.finds(fault, among=1), (name, result.reason)
        assert result.proves(fault), (name, result.reason)
        assert "proven: with " in result.reason
        assert "do: " in result.reason
    assert results["unknown"].proves(FAULTS["unknown"]), results["unknown"].reason
    assert "(found by halving all differences)" in results["unknown"].reason
    assert not results["none"].failed
    assert not any(result.is_wrong(FAULTS[name]) for name, result in results.items())
    # The terminal shows the proof too.
    assert "proven: with OPENBLAS_CORETYPE removed" in printed
