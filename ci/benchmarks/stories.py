"""What explanations would say of clean cases if noise made them fail: nothing, if all goes well.

    ci/benchmark stories [arguments for ReFrame]

runs every application in its containers for two rounds, or as many as ``-S rounds=`` says, and pretends of each figure
that it had failed, and of the runs that they had ended: in all rounds together, and in each by itself. Prints the cases
whose figures would be told a cause, with the causes: each is a difference between this machine and an image that a rule
takes for a cause. Then how many figures and cases there were. Exit status 1 where there are such.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from containercheck.application.declare import Figure
from containercheck.node import contract
from containercheck.node.explain import explanation, observations
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.formatting import names
from containercheck.session import reframe_process

REPOSITORY = Path(__file__).resolve().parents[2]
#: Arguments of the session: of how the figures come out nothing depends.
ARGUMENTS = ("-S", "rounds=2", "-S", "quiet=0", "-S", "strict_check=no", "--keep-stage-files", "--exec-policy=serial")
#: What is yielded for the end of runs.
ENDED = "the end of its runs"
KNOWN = {field.name for field in fields(Figure)}


def stories(stage: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the figures of a job with the causes that they would be told if they had failed; then the end of a run.

    Of all rounds together, and of each by itself, as a job of a single round would have it.

    :param stage: of the job.
    """
    facts = json.loads((stage / contract.FACTS).read_text())
    runs = json.loads((stage / contract.RECORD).read_text())["runs"]
    rounds = sorted({run["round"] for run in runs})
    yield from _of_runs(stage, facts, runs)
    for number in rounds if len(rounds) > 1 else ():
        yield from _of_runs(stage, facts, [run for run in runs if run["round"] == number])


def _of_runs(
    stage: Path, facts: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    for side in facts["sides"]:
        against = side.get("compared_with")
        if against is None:
            continue
        host, inside, uses = observations.of_pair(stage, runs, (against, side["name"]))
        for stated in facts["figures"]:
            figure = Figure(**{name: value for name, value in stated.items() if name in KNOWN})
            found = explanation.causes(host, inside, uses, [figure], facts["ranks"])
            yield figure.name, [cause.sentence for cause in found]
        ended = explanation.causes_of_end(host, inside, uses, facts["ranks"])
        yield ENDED, [cause.sentence for cause in ended]


def run(arguments: Sequence[str], directory: Path) -> list[Case]:
    """Run the session, and return the cases whose rounds came to their end; their stage directories are kept.

    :raises ReportError: ReFrame left no report.
    """
    report = directory / "report.json"
    words = [reframe_process.program(), "-c", str(REPOSITORY / "checks"), "-r", "--prefix", str(directory), *ARGUMENTS]
    with (directory / "log").open("w") as log:
        environment = {**os.environ, "RFM_REPORT_FILE": str(report)}
        subprocess.run([*words, *arguments], env=environment, stdout=log, stderr=log, check=False)
    return [
        case for case in collect([load(report)]) if case.result == "pass" and Path(case.stage, contract.RECORD).exists()
    ]


def main() -> int:
    """Run the session, print what would be told, and return the exit status."""
    figures = told = looked_at = 0
    with tempfile.TemporaryDirectory(prefix="stories-") as directory:
        try:
            cases = run(sys.argv[1:] or ["-n", "%variant=(integrated|generic)"], Path(directory))
        except ReportError as error:
            sys.exit(f"error: {error}")
        for case in cases:
            by_causes: dict[tuple[str, ...], list[str]] = {}
            for figure, causes in stories(Path(case.stage)):
                figures += 1
                looked_at += figure == ENDED
                by_causes.setdefault(tuple(causes), []).append(figure)
            by_causes.pop((), None)
            for sentences, of_figures in by_causes.items():
                told += len(of_figures)
                print(f"{names([case])}: {', '.join(of_figures)}", *sentences, sep="\n    ")
    print(f"{figures} figures of {len(cases)} cases, looked at {looked_at} times: {told} would be told a cause")
    return 0 if figures and not told else 1


if __name__ == "__main__":
    sys.exit(main())
