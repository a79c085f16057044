"""Real applications in all variants on every architecture: their answers are those of this machine's own."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest
from conftest import shared_directory
from containercheck.job import contract
from containercheck.job.outputs import reading
from emulated import MARKS, PARTITIONS, reframe, require_run, up

pytestmark = [*MARKS, pytest.mark.long]
CASES = "^(HPCC|GROMACS)%.*num_nodes=1%image_release=fitting"
CHECKS = ("HPCC", "GROMACS")
VARIANTS = ("bare", "integrated", "generic")
#: A run takes a good minute there. GROMACS averages the energies of every hundredth step.
SMALL = ("-S", "HPCC.memory_fraction=1e-4", "-S", "GROMACS.boxes=2", "-S", "GROMACS.timesteps=100")
FEW = ("-S", "rounds=2", "-S", "strict_check=no", *SMALL)


@pytest.fixture(scope="module")
def sessions():
    """Return a session of each partition, the machine's own first."""
    with up("--arm", "1", "--power", "1"), shared_directory() as place:
        yield {name: session(place / name, name) for name in ("compute", *PARTITIONS)}


def session(place, partition):
    place.mkdir()
    return reframe(place, f"virtual-cluster:{partition}", "-n", CASES, *FEW)


def answers(case):
    """Return the answers of a case's last side, by name, with what is declared of each."""
    stage = Path(case["stagedir"])
    facts = json.loads((stage / contract.FACTS).read_text())
    side = facts["sides"][-1]["name"]
    runs = json.loads((stage / contract.RECORD).read_text())["runs"]
    output = next(stage / run["output"] for run in runs if run["side"] == side)
    declared = [types.SimpleNamespace(**answer) for answer in facts["answers"]]
    return {answer.name: (answer, reading.read_answer(answer, output)) for answer in declared}


@pytest.mark.parametrize("check", CHECKS)
def test_it_passes_in_all_variants_on_every_architecture(sessions, check):
    for partition, result in sessions.items():
        assert result.status == 0, result.output
        for variant in VARIANTS:
            case = require_run(result, partition, variant, check)
            if partition in PARTITIONS and variant != "bare":
                assert f"-{PARTITIONS[partition].name}-" in case["provenance"]["image"]


@pytest.mark.parametrize("check", CHECKS)
def test_its_answers_are_those_of_this_machines_own_architecture(sessions, check):
    usual = answers(sessions["compute"].case("bare", name=check))
    for variant in VARIANTS:
        found = {partition: answers(result.case(variant, name=check)) for partition, result in sessions.items()}
        for name, (answer, value) in usual.items():
            for partition, own in found.items():
                other = own[name][1]
                assert reading.problem(answer, other) is None
                assert reading.disagreement(answer, value, other, "compute") is None, (partition, variant)
