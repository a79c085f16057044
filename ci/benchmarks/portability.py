"""Run images of other releases on this host, and print the host's part of the README's table, in Markdown.

    ci/benchmark portability [arguments for ReFrame]
    ci/fresh-machine trixie ci/benchmark portability

runs four applications, integrated and generic, in an image of each release (checks/containercheck/site/sites.py),
and prints for each by how much one figure is worse than bare, or why it does not run. Below the table: how ranks were
started where not by the launcher alone, and the reasons. Exit status 0, whatever runs; 1 where nothing could be tried.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from twice import CHECKS, Stopped, run_to_end, workplace

# Found by twice, which adds ci/ to the path.
from containercheck.session.reframe_process import Relay  # isort: skip
from containercheck.report import table
from containercheck.results.cases import Case, ReportError, collect, load

#: Figure that is measured, by application.
FIGURES = {
    "StartUp": "start",
    "PingPong": "latency_within_socket",
    "HPCC": "StarDGEMM",
    "GROMACS": "rate",
}
VARIANTS = ("integrated", "generic")


def releases_of_images() -> list[str]:
    """Return the code names of the releases for images, from the source text, which needs no ReFrame."""
    text = (CHECKS / "containercheck" / "site/sites.py").read_text()
    return re.findall(r'"(\w+)": \(2, \d+\)', text)


def host() -> str:
    """Return name and version of this host's distribution."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    names = dict(re.findall(r'^(\w+)="?([^"\n]*)', text, re.MULTILINE))
    return f"{names['NAME'].split()[0]} {names.get('VERSION_ID', 'testing')}"


def cell(case: Case | None, remarks: list[str]) -> str:
    """Return the result of a case in a few words; a longer text becomes a remark with a number."""

    def numbered(text: str) -> str:
        if text not in remarks:
            remarks.append(text)
        return f"[{remarks.index(text) + 1}]"

    if case is None:
        return "-"
    row = next((row for row in case.rows if row.figure == FIGURES[case.application] and row.is_comparison), None)
    if row is None:
        return f"no {numbered(' '.join(case.reason.split()) or case.result)}"
    started = [note for note in case.notes if note.startswith("ranks are started ")]
    return " ".join([table.overhead(row), *map(numbered, started)])


def markdown(runs: dict[str, Iterable[Case]], title: str) -> list[str]:
    """Return the table, with remarks below.

    :param runs: the cases of each release of the image.
    """
    cases = {(release, case.application, case.variant): case for release in runs for case in runs[release]}
    remarks: list[str] = []
    heads = [f"{release} on {title}" for release in runs]
    lines = [f"| application | figure | variant | {' | '.join(heads)} |", "| --- " * (3 + len(heads)) + "|"]
    for application, figure in FIGURES.items():
        for variant in VARIANTS:
            cells = [cell(cases.get((release, application, variant)), remarks) for release in runs]
            lines.append(f"| {' | '.join([application, figure, variant, *cells])} |")
    return [*lines, "", *(f"[{number}] {text}" for number, text in enumerate(remarks, 1))]


def run(release: str, directory: Path, relay: Relay, arguments: Sequence[str]) -> list[Case]:
    """Run the applications in images of a release, and return their cases.

    :raises Stopped: somebody asked to stop.
    :raises ReportError: ReFrame ran nothing.
    """
    report = directory / f"{release}.json"
    names = f"^({'|'.join(FIGURES)})%.*variant=({'|'.join(VARIANTS)})%.*num_nodes=1(%|$)"
    command = [str(Path(sys.executable).parent / "reframe"), "-c", str(CHECKS), "-r", f"--prefix={directory}"]
    command += ["-n", names, "--exclude-tag=full", f"--report-file={report}", "-S", f"release={release}", *arguments]
    run_to_end(relay, command, cwd=directory)
    return collect([load(report)])


def main() -> None:
    """Run everything, then print the table."""
    try:
        with workplace("portability-") as (directory, relay):
            runs = {name: run(name, directory, relay, sys.argv[1:]) for name in releases_of_images()}
    except Stopped as error:
        sys.exit(f"stopped by {error}")
    except ReportError as error:
        sys.exit(f"error: {error}")
    print("\n".join(markdown(runs, host())))


if __name__ == "__main__":
    main()
