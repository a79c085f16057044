"""The fault matrix: what is planted in a container, and whether the explanation finds and proves it.

    ci/benchmark faults [--unlisted | FAULT ...]

runs explained_checks.py by ReFrame alone, in a directory of its own: each fault is planted for real, the container
fails, and its job tries remedies. Prints a table in Markdown: was the cause named, named first, among three, proven; a
wrong proof; the seconds of the runs that halved differences, and of the job. Then the totals, and the message of each
failure, as people see it. With names, these faults only; with ``--unlisted``, those that no rule was written for
(unlisted_causes.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from containercheck.job import contract
from containercheck.job.explain import explanation
from planted_causes import BY_WRAPPER, FAULTS, Fault
from unlisted_causes import UNLISTED

EVERY = {**FAULTS, **UNLISTED}
REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
#: A site where no measurement waits for others: the checks need no clock.
SITE = """site_configuration = {'systems': [{'name': 'here', 'hostnames': ['.*'], 'partitions': [
    {'name': 'only', 'scheduler': 'local', 'launcher': 'mpirun', 'environs': ['builtin'],
     'extras': {'containercheck': {'machine_lock': False}}}]}]}
"""


@dataclass(frozen=True)
class Result:
    """What became of a fault.

    :ivar failed: whether the check failed.
    :ivar named: sentences of the causes, the likeliest first.
    :ivar proven: sentences of those that were proven.
    :ivar parts: sentences of those that explain a part.
    :ivar halving: seconds of the runs that halved differences.
    :ivar seconds: of the job.
    :ivar reason: why the case failed, as ReFrame prints it.
    """

    failed: bool
    named: tuple[str, ...]
    proven: tuple[str, ...]
    parts: tuple[str, ...]
    halving: float
    seconds: float
    reason: str

    def finds(self, fault: Fault, among: int = 100) -> bool:
        """Return whether all that was planted is among the first of the causes that were named."""
        # What ended a run is in the failure's first line.
        first = [*self.reason.splitlines()[:1], *self.named[: max(among, len(fault.expected))]]
        return all(any(re.search(pattern, sentence) for sentence in first) for pattern in fault.expected)

    def proves(self, fault: Fault) -> bool:
        """Return whether what was planted was proven, or the script around the runtime that plants it."""
        by_wrapper = fault.runtime and any(re.search(BY_WRAPPER, sentence) for sentence in self.proven)
        return bool(by_wrapper) or (
            bool(fault.expected)
            and all(any(re.search(pattern, sentence) for sentence in self.proven) for pattern in fault.expected)
        )

    def is_wrong(self, fault: Fault) -> bool:
        """Return whether something was proven that was not planted, or is not what slows the container."""
        right = (*(fault.expected if fault.proven else ()), *([BY_WRAPPER] if fault.runtime else []))
        return any(not any(re.search(pattern, sentence) for pattern in right) for sentence in self.proven)


def run(names: list[str], directory: Path) -> tuple[dict[str, Result], str]:
    """Run ReFrame with these faults, and return their results and what it printed."""
    directory.mkdir(parents=True)
    (directory / "site.py").write_text(SITE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    environment.update(RFM_SYSTEM="here", RFM_CONFIG_FILES=str(directory / "site.py"))
    environment["PYTHONPATH"] = f"{REPOSITORY / 'checks'}:{HERE}"
    chosen = f"fault=({'|'.join(map(re.escape, names))})( |$)"
    report = directory / "report.json"
    words = [
        str(Path(sys.executable).with_name("reframe")),
        "-c",
        str(HERE / "explained_checks.py"),
        "-r",
        "-n",
        chosen,
    ]
    words += [f"--prefix={directory}", f"--report-file={report}", "--exec-policy=serial"]
    done = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return read(json.loads(report.read_text())), done.stdout


def read(report: dict) -> dict[str, Result]:
    """Return the result of each fault in a session's report."""
    cases: dict[str, list[dict]] = {}
    for case in (case for session in report["runs"] for case in session["testcases"]):
        cases.setdefault(case["fault"], []).append(case)
    results = {}
    for name, runs in cases.items():
        causes = runs[-1].get("causes") or []
        results[name] = Result(
            runs[-1]["result"] == "fail",
            tuple(cause["sentence"] for cause in causes),
            tuple(cause["sentence"] for cause in causes if explanation.is_proven(cause)),
            tuple(cause["sentence"] for cause in causes if explanation.helps(cause)),
            halving_seconds(runs[-1]),
            sum(case.get("job_seconds") or 0 for case in runs),
            runs[-1].get("fail_reason") or "",
        )
    return results


def halving_seconds(case: dict) -> float:
    """Return the seconds of a failed case's remedies for groups of differences: no cause names these."""
    named = {(cause.get("result") or {}).get("name") for cause in case.get("causes") or []}
    path = Path(case["stagedir"] or "", contract.RECORD)
    runs = json.loads(path.read_text())["runs"] if path.is_file() else []
    return sum(run["seconds"] for run in runs if run["side"].startswith("remedy") and run["side"] not in named)


def table(results: dict[str, Result]) -> list[str]:
    """Return the table, and the totals."""
    lines = [
        "| fault | source | found | first | among three | proven | wrong | halving | seconds |",
        "|" + " --- |" * 9,
    ]
    totals = dict.fromkeys(("planted", "found", "first", "three", "can be proven", "proven", "wrong"), 0)
    for name, result in results.items():
        fault = EVERY[name]
        found, first, three = (bool(fault.expected) and result.finds(fault, among) for among in (100, 1, 3))
        proves, wrong = result.proves(fault), result.is_wrong(fault)
        words = ["yes" if holds else "no" for holds in (found, first, three)] if fault.expected else ["-"] * 3
        proof = ("yes" if proves else "no") if fault.proven else "-"
        row = [name, fault.source, *words, proof, "WRONG" if wrong else "no"]
        row += [f"{result.halving:.0f}", f"{result.seconds:.0f}"]
        lines.append(f"| {' | '.join(row)} |")
        counted = (bool(fault.expected), found, first, three, fault.proven, fault.proven and proves, wrong)
        totals = {word: totals[word] + count for word, count in zip(totals, counted)}
    return [*lines, "", ", ".join(f"{word} {count}" for word, count in totals.items())]


def messages(results: dict[str, Result]) -> list[str]:
    """Return what ReFrame prints of each fault."""
    return [
        line for name, result in results.items() for line in ("", f"{name}:", textwrap.indent(result.reason, "    "))
    ]


def main() -> None:
    """Run the faults that are named, and print the table and the messages."""
    names = list(UNLISTED) if sys.argv[1:] == ["--unlisted"] else sys.argv[1:] or list(FAULTS)
    unknown = [name for name in names if name not in EVERY]
    if unknown:
        sys.exit(f"error: no such fault: {unknown[0]}. There are {', '.join(EVERY)}")
    with tempfile.TemporaryDirectory() as directory:
        results, printed = run(names, Path(directory, "place"))
        print("\n".join([*table(results), *messages(results)]) if results else printed, flush=True)


if __name__ == "__main__":
    main()
