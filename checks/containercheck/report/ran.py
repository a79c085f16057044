"""Lines on what ran, for the end of a session's text: the images, and the commands that repeat failed runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.formatting import size

#: Most cases that are named for an image.
NAMED = 3


def lines(cases: Sequence[Case]) -> list[str]:
    """Return a line for each image that ran, with its digest, and one for each failed case that can be repeated."""
    return [*images(cases), *reproducers(cases)]


def images(cases: Sequence[Case]) -> list[str]:
    """Return a line for each image that ran: path, digest, sizes (D12.6 section 8.2), and the cases that ran it."""
    users: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for image, side in _images(case):
            who = f"{case.label} {case.variant}{f' ({side})' if side else ''}"
            users.setdefault(image, []).append(who)
    image_lines = []
    for (path, digest), cases_of_image in users.items():
        names = list(dict.fromkeys(cases_of_image))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        image_lines.append(f"image: {path}, {digest}: {', '.join(names[:NAMED])}{more}")
    return image_lines


def _images(case: Case) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield path and digest of each image that a case ran, and the side that ran it; empty where all sides did."""
    provenance = case.provenance
    if "image" in provenance:
        yield (provenance["image"], _identity(provenance)), ""
    for side, image in (provenance.get("images") or {}).items():
        yield (image["image"], _identity(image)), side


def _identity(facts: Mapping[str, Any]) -> str:
    """Return what identifies an image, and its size and that of its files where they are known."""
    digest, count, content = (facts.get(f"image_{name}") for name in ("sha256", "bytes", "content_bytes"))
    shown = f"sha256 {digest}" if digest else facts.get("image_id") or "no digest: it is a directory"
    shown += f", {size(count)}" if count else ""
    return f"{shown}, with {size(content)} of files" if content else shown


def reproducers(cases: Sequence[Case]) -> list[str]:
    """Return a line for each failed case: the command that repeats one run of the judged side."""
    commands = []
    for case in cases:
        run = selections.failure(case)
        if run and run.reproducer:
            # A bare case has one side only.
            side = "baseline" if run.variant == "bare" else _judged_side(run)
            commands.append(f"to repeat {run.label} {run.variant}: bash {shlex.quote(run.reproducer)} {side}")
    return commands


def _judged_side(case: Case) -> str:
    """Return the name of the side that is judged, the last one of several."""
    sides = [name for name in (case.compared.get("side") or {}) if name != "baseline"]
    return sides[-1] if sides else "subject"
