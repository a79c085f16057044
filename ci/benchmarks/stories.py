"""What explanations would say of clean cases if noise made them fail: nothing, if all goes well.

    ci/benchmark stories [arguments for ReFrame]

runs every application in its containers for two rounds, and pretends of each figure that it had failed. Prints the
cases whose figures would be told a cause, with the causes: each is a difference between this machine and an image
that a rule takes for a cause. Then how many figures there were. Exit status 1 where there are such.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from containercheck.application.facts import Figure
from containercheck.explain import explanation, observations
from containercheck.node import contract

REPOSITORY = Path(__file__).resolve().parents[2]
#: Arguments of the session: of how the figures come out nothing depends.
ARGUMENTS = ("-S", "rounds=2", "-S", "quiet=0", "-S", "strict_check=no", "--keep-stage-files", "--exec-policy=serial")
KNOWN = {field.name for field in fields(Figure)}


def stories(stage: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the figures of a job with the causes that they would be told if they had failed.

    :param stage: of the job.
    """
    facts = json.loads((stage / contract.FACTS).read_text())
    runs = json.loads((stage / contract.RECORD).read_text())["runs"]
    for side in facts["sides"]:
        against = side.get("compared_with")
        if against is None:
            continue
        seen = [observations.read(stage, name) for name in (against, side["name"])]
        uses = tuple(
            observations.Use.of([run for run in runs if run["side"] == name]) for name in (against, side["name"])
        )
        for stated in facts["figures"]:
            figure = Figure(**{name: value for name, value in stated.items() if name in KNOWN})
            found = explanation.causes(seen[0], seen[1], uses, [figure], facts["ranks"])
            yield figure.name, [cause.sentence for cause in found]


def main() -> int:
    """Run the session, print what would be told, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="stories-") as directory:
        words = ["-c", str(REPOSITORY / "checks"), "-r", "--prefix", directory, *ARGUMENTS]
        words += sys.argv[1:] or ["-n", "%variant=(integrated|generic)"]
        program = Path(sys.executable).with_name("reframe")
        report = Path(directory, "report.json")
        environment = {**os.environ, "RFM_REPORT_FILE": str(report)}
        with Path(directory, "log").open("w") as log:
            subprocess.run([program, *words], env=environment, stdout=log, stderr=log, check=False)
        cases = [case for run in json.loads(report.read_text())["runs"] for case in run["testcases"]]
        ran = [case for case in cases if case.get("result") == "pass" and case.get("stagedir")]
        figures, told = 0, 0
        for case in ran:
            stage = Path(case["stagedir"])
            if not (stage / contract.RECORD).exists():
                continue
            by_causes: dict[tuple[str, ...], list[str]] = {}
            for figure, causes in stories(stage):
                figures += 1
                by_causes.setdefault(tuple(causes), []).append(figure)
            for causes, names in by_causes.items():
                if causes:
                    told += len(names)
                    name = re.sub(r" %image_release=\S+", "", case["display_name"])
                    print(f"{name}: {', '.join(names)}")
                    print("".join(f"    {cause}\n" for cause in causes), end="")
    print(f"{figures} figures of {len(ran)} cases: {told} would be told a cause")
    return 0 if figures and not told else 1


if __name__ == "__main__":
    sys.exit(main())
