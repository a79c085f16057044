"""Reading what a program once printed, through a check's own metrics and answers, as after a session."""

from __future__ import annotations

from pathlib import Path

from conftest import BARE, facts_of, run_of
from containercheck.job.outputs import reasons
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.verdict import builds

OUTPUTS = Path(__file__).resolve().parent / "outputs"


def read(check: type, directory: str, ranks: int) -> Evaluation:
    """Evaluate a bare run that left its output in a directory below ``ci/tests/outputs``."""
    # Of a class, ReFrame gives a variable as an object of its own.
    rank_count = getattr(check.rank_count, "default_value", check.rank_count)
    facts = Facts(facts_of(check.metrics, check.answers, rank_count, ranks, [BARE]))
    evaluation = Evaluation(facts, OUTPUTS)
    evaluation.add(run_of("baseline", directory))
    evaluation.end_round()
    return evaluation


def problems(check: type, directory: str, ranks: int) -> list[str]:
    """Return what is wrong with such a run."""
    return read(check, directory, ranks).final_problems()


def metrics(check: type, directory: str, ranks: int) -> dict[str, float]:
    """Return the metrics of such a run, which must be without fault."""
    evaluation = read(check, directory, ranks)
    assert evaluation.final_problems() == []
    return {name: sides["baseline"][0] for name, sides in evaluation.values().items()}


def build(check: type, directory: str) -> dict[str, str]:
    """Return what such a run says of the program's build."""
    return builds.read(check.identity, [run_of("baseline", directory)], OUTPUTS).get("baseline", {})


def why(directory: str) -> str:
    """Return the line that says why such a run failed."""
    return reasons.why(*((OUTPUTS / directory / name).read_text() for name in ("err", "out")))


def changed(directory: str, into: Path, old: str, new: str, name: str = "out") -> str:
    """Write such an output with another text in place of one that it must have; return where to read it from."""
    text = (OUTPUTS / directory / name).read_text()
    assert old in text
    (into / name).write_text(text.replace(old, new))
    return str(into)
