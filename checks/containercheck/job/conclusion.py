"""Turn the rounds of a job into the verdict of its record (standard library only, Python 3.6 or newer).

ReFrame's process reads it and judges nothing again.
"""

from pathlib import Path
from typing import Any, Dict, List, Tuple

from containercheck.job import texts
from containercheck.job.confirmation import Confirmation
from containercheck.job.explain import explanation, observations, rules
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.verdict import builds as builds_of
from containercheck.job.verdict.findings import Findings
from containercheck.job.verdict.outcome import JobOutcome


def conclude_start(record: Dict[str, Any], confirmation: Confirmation) -> None:
    """Put the causes into the record of a job in which nothing that is compared could start."""
    causes, _ = _explained(confirmation)
    lines = [*explanation.lines(causes), *confirmation.notes]
    record["verdict"] = texts.cleaned({"causes": causes, "explained": lines})


def _explained(confirmation: Confirmation) -> Tuple[List[Dict[str, Any]], str]:
    """Return what explains a failure; an error in that costs no verdict."""
    try:
        return confirmation.explain()
    except Exception as error:
        print(f"what failed is not explained: {error!r}", flush=True)
        return [], ""


def conclude(record: Dict[str, Any], facts: Facts, evaluation: Evaluation, confirmation: Confirmation) -> None:
    """Put the verdict into the record of a job, as far as its rounds have come: these entries.

    - ``problems``: lines about runs that are not valid, or prove something else than they should; where there are any,
      there may be no rows.
    - ``rows``: see ``results.row.Row``. ``performance``: name, value and unit of what ReFrame logs.
    - ``failures``, ``doubts``: lines about metrics that failed, and that are open.
    - ``causes``, ``where_time_went``, ``explained``: what can explain a failure, and lines about it.
    - ``notes``: lines about what is no fault. ``measured``: of each round side, metric and value.
    - ``lost``: sides that the others were run on without, and why. ``seconds`` of the application.
    - ``provenance``: what ran where.

    :param record: what the runner kept; the current directory is the job's stage directory.
    """
    stage, runs = Path(), record["runs"]
    left = [side for side in facts.sides if side.name not in evaluation.lost]
    found = Findings(record, left, stage)
    faults, changes = found.changes()
    # A remedy is none of what is compared.
    names = {side.name for side in facts.sides}
    compared = {**record, "runs": [run for run in runs if run["side"] in names]}
    builds = builds_of.read(facts.identity, compared["runs"], stage)
    outcome = JobOutcome(facts.metrics, facts.sides, evaluation, facts.expected, builds, confirmation.confirmed)
    problems = evaluation.final_problems()
    if problems:
        # Ranks that wait for one another on a core may never end.
        problems += found.binding_problems()
    problems = problems or found.start_problems() or faults
    causes, line = _explained(confirmation)
    seen = {side.label: observations.read(stage, side.name) for side in left}
    notes: List[str] = [*evaluation.left_out, *evaluation.not_applicable, *found.disturbances(), *found.remarks()]
    notes += [*confirmation.notes, *changes, *rules.remarks(seen)]
    rows = outcome.rows() if not problems or evaluation.lost else []
    record["verdict"] = texts.cleaned(
        {
            "problems": problems,
            "rows": rows,
            "performance": [list(entry) for entry in outcome.performance()] if not problems else [],
            "failures": outcome.failures if not problems else [],
            "doubts": outcome.doubts if not problems else [],
            "causes": causes,
            "where_time_went": line,
            "explained": explanation.lines(causes),
            "notes": notes,
            "measured": evaluation.rounds,
            "lost": evaluation.lost,
            "seconds": round(evaluation.seconds, 3),
            "provenance": builds_of.provenance(compared, builds, stage),
        }
    )
