"""Says whether an image is fit for this machine, without a site file; with an application, how fast it runs in it."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from containercheck.command import run
from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.job import inventory, runtime_start
from containercheck.report import fitness
from containercheck.report.fitness import Finding
from containercheck.results.cases import Case
from containercheck.results.formatting import columns, say, speak_as, typed
from containercheck.session import image_facts, rank_start
from containercheck.session.image_facts import ImageFacts
from containercheck.session.rank_start import NotStarted, Start
from containercheck.session.reframe_process import Workplace


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the findings, and return the exit status."""
    speak_as("image")
    options, _, parser = parsed("image", argv)
    if options.json and options.markdown:
        parser.error("--json or --markdown, not both")
    host = inventory.inventory()
    runs_files = [runtime for runtime in host["runtimes"] if runtime["mounts"] and not runtime["problem"]]
    if not runs_files:
        say("error: no runtime that runs image files is on the PATH: see containercheck doctor")
        return NOT_JUDGED
    command = runs_files[0]["path"]
    try:
        image = image_facts.read(options.image, command)
    except image_facts.NoImage as error:
        say(f"error: {error}")
        return NOT_JUDGED
    except image_facts.ImageError as error:
        say(f"error: {error}")
        return BROKEN
    starts, not_started = _ranks(image, command, host)
    found = fitness.findings(image, host, starts, not_started)
    names = options.names or ([f"^{check}%" for check in image.checks] if options.run else [])
    if options.run and not names:
        found.append(Finding(fitness.REMARK, "run", "nothing was run: it has the program of none of our checks"))
    if names:
        found += _run(options.image, names, place, ["--here"] if options.here else [])
    if options.json:
        print(json.dumps({"image": asdict(image), "findings": [asdict(finding) for finding in found]}, indent=2))
    else:
        print("\n".join(_markdown(options.image, found) if options.markdown else _lines(found)))
        if not options.markdown and image.checks and not names:
            print(f"next: {typed('image')} {options.image} --run, or -n {next(iter(image.checks))}")
    return FINE if fitness.is_fit(found) else BROKEN


def _ranks(image: ImageFacts, command: str, host: dict) -> tuple[list[Start], str]:
    """Return what came of starting ranks, and why none was started; nothing for an image without MPI."""
    if not image.mpi_library:
        return [], ""
    runtime, _ = runtime_start.identify(command)
    family = next(iter(image.families), None)
    container = rank_start.ImageStart(
        command, runtime, image.path, image.mpi_library, family, image.libc, image.has_launcher
    )
    try:
        return rank_start.starts(container, host), ""
    except NotStarted as error:
        return [], str(error)


def _run(image: str, names: Sequence[str], place: Workplace, options: Sequence[str]) -> list[Finding]:
    """Run checks with the image, and return a finding for each case of a container.

    :param names: patterns of ReFrame's for the checks.
    :param options: others of the session.
    """
    found: list[Finding] = []

    def conclude(cases: Sequence[Case], problems: Sequence[str]) -> int:
        found.extend(fitness.of_cases(cases))
        found.extend(Finding(fitness.PROBLEM, "run", problem) for problem in problems)
        return 0

    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        # The last session's report stays.
        words = [*options, "--image", image, *(word for name in names for word in ("-n", name))]
        status = run.session(words, replace(place, report_file=Path(directory, "report.json")), conclude)
    if not found:
        found.append(Finding(fitness.PROBLEM, "run", f"the session ended with status {status}", "see above"))
    return found


def _lines(found: Sequence[Finding]) -> list[str]:
    rows = [(finding.state, finding.topic, finding.text) for finding in found]
    printed = []
    for finding, line in zip(found, columns(rows)):
        printed.append(line)
        if finding.remedy:
            printed.append(f"{'':{len(fitness.PROBLEM)}}  -> {finding.remedy}")
    return [*printed, _verdict(found)]


def _markdown(image: str, found: Sequence[Finding]) -> list[str]:
    """Return the findings as a table of GitHub's and GitLab's Markdown."""
    rows = [(finding.state, finding.topic, finding.text, finding.remedy) for finding in found]
    cells = [[re.sub(r"([|\\`*_<>])", r"\\\1", cell) for cell in row] for row in rows]
    return [
        f"### {image}: {_verdict(found)}",
        "",
        "| | about | finding | what to do |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]


def _verdict(found: Sequence[Finding]) -> str:
    return "fit for this machine" if fitness.is_fit(found) else "not fit for this machine"
