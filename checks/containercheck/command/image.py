"""Says whether an image is fit for this machine, without a site file and without running an application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from containercheck.command.parsers import COMMANDS, parsed
from containercheck.node import inventory
from containercheck.report import fitness
from containercheck.results.formatting import columns, say, speak_as
from containercheck.session import image_facts
from containercheck.session.reframe_process import Workplace


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the findings, and return the exit status."""
    speak_as("image")
    options, _, _ = parsed("image", argv)
    host = inventory.inventory()
    runs_files = [runtime for runtime in host["runtimes"] if runtime["mounts"] and not runtime["problem"]]
    if not runs_files:
        say("error: no runtime that runs image files is on the PATH: see containercheck doctor")
        return COMMANDS["image"].wrong_usage
    try:
        image = image_facts.read(options.image, runs_files[0]["path"])
    except image_facts.ImageError as error:
        say(f"error: {error}")
        return 1
    found = fitness.findings(image, host)
    if options.json:
        print(json.dumps({"image": asdict(image), "findings": [asdict(finding) for finding in found]}, indent=2))
    else:
        rows = [(finding.state, finding.topic, finding.text) for finding in found]
        for finding, line in zip(found, columns(rows)):
            print(line)
            if finding.remedy:
                print(f"{'':{len(fitness.PROBLEM)}}  -> {finding.remedy}")
        print("fit for this machine" if fitness.is_fit(found) else "not fit for this machine")
    return 0 if fitness.is_fit(found) else 1
