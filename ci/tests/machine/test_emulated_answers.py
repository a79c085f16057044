"""Real applications in all variants on every architecture: their answers are those of this machine's own."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest
from conftest import shared_directory
from containercheck.job import contract
from containercheck.job.outputs import reading
from emulated import MARKS, PARTITIONS, reframe, up

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
        known = PARTITIONS.get(partition)
        for variant in VARIANTS:
            case = result.case(variant, name=check)
            assert case["result"] == "pass", result.output
            libraries = case["provenance"]["mpi"]
            if known:
                assert any(f"/{known.triplet}/libmpi.so.40" in library for library in libraries["baseline"]), libraries
            if variant != "bare":
                # Proven by what the ranks had mapped.
                hosts = any(library.startswith("/host/") for library in libraries["subject"])
                assert hosts is (variant == "integrated"), libraries
            if known and variant != "bare":
                assert {row["verdict"] for row in case["results"]} == {"emulated"}
                assert f"-{known.name}-" in case["provenance"]["image"]


@pytest.mark.parametrize("check", CHECKS)
def test_its_answers_are_those_of_this_machines_own_architecture(sessions, check, capsys):
    usual = answers(sessions["compute"].case("bare", name=check))
    rows = [f"{check:30} {'variant':12} " + " ".join(f"{partition:>14}" for partition in sessions)]
    for variant in VARIANTS:
        found = {partition: answers(result.case(variant, name=check)) for partition, result in sessions.items()}
        for name, (answer, value) in usual.items():
            others = {partition: own[name][1] for partition, own in found.items()}
            rows.append(f"{name:30} {variant:12} " + " ".join(f"{other!s:>14}" for other in others.values()))
            for partition, other in others.items():
                assert reading.problem(answer, other) is None
                assert reading.disagreement(answer, value, other, "compute") is None, (partition, variant)
    with capsys.disabled():
        print("", *rows, sep="\n")
