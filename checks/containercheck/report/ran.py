"""What ran, for the end of a session's text: which images, and the commands that repeat a run that failed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from containercheck.results import selections
from containercheck.results.cases import Case

#: So many of the cases that ran an image are named.
NAMED = 3


def lines(cases: Sequence[Case]) -> list[str]:
    """Return a line for each image that ran, with its digest, and one for each failed case that can be repeated."""
    return [*images(cases), *reproducers(cases)]


def images(cases: Sequence[Case]) -> list[str]:
    """Return a line for each image that ran: path, digest, and who ran it."""
    users: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for image, side in _images(case):
            who = f"{case.label} {case.variant}{f' ({side})' if side else ''}"
            users.setdefault(image, []).append(who)
    found = []
    for (path, digest), those in users.items():
        named = list(dict.fromkeys(those))
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        found.append(f"image: {path}, {digest}: {', '.join(named[:NAMED])}{more}")
    return found


def _images(case: Case) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield path and digest of the images that a case ran, and of each the side that has it alone."""
    known = case.provenance
    if "image" in known:
        digest = known.get("image_sha256")
        ident = known.get("image_id")
        yield (known["image"], f"sha256 {digest}" if digest else ident or "no digest: it is a directory"), ""
    for side, one in (known.get("images") or {}).items():
        digest = one.get("image_sha256")
        yield (one["image"], f"sha256 {digest}" if digest else "no digest: it is a directory"), side


def reproducers(cases: Sequence[Case]) -> list[str]:
    """Return a line for each failed case: the command that repeats one run of the side that is judged."""
    found = []
    for case in cases:
        run = selections.failure(case)
        if run and run.reproducer:
            # Of a bare case there is one side only.
            side = "baseline" if run.variant == "bare" else _judged(run)
            found.append(f"to repeat {run.label} {run.variant}: bash {shlex.quote(run.reproducer)} {side}")
    return found


def _judged(case: Case) -> str:
    """Return the name of the side that is judged last."""
    sides = [name for name in (case.compared.get("side") or {}) if name != "baseline"]
    return sides[-1] if sides else "subject"
