"""Programs that cannot be downloaded: the site has them, and gives their options and the patterns of their output."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from reframe.core.exceptions import ReframeError

from containercheck.application.declare import Answer, Metric
from containercheck.site.extras import NAMESPACE, Software
from containercheck.site.sites import Site
from containercheck.software import Misconfigured, Unavailable

#: Placeholder for a pattern of a metric, an answer or the rank count that only a site knows; it never matches.
SITES = r"(?!)()"


def require(check: str, site: Site, published: str, needs_image: bool) -> None:
    """Check that the site has a program, its input, and an image where one is needed.

    :param published: the requested input.
    :param needs_image: whether the check runs in a container, and only the program's entry could name an image.
    :raises Unavailable: the site has no such program, or no image; the message says where to name it.
    :raises Misconfigured: its program is named, and no input.
    """
    software, where = site.software_of(check), _place(check, site)
    if software == Software():
        raise Unavailable(f"no software: {check} cannot be downloaded: name program, options and input in {where}")
    if not site.input_of(check, published):
        raise Misconfigured(f"no input: that of {check} cannot be downloaded: name it in {where}, input")
    if needs_image and not software.image and not software.binds:
        raise Unavailable(f"no image: {check} cannot be built: name a ready one, or a tree to bind, in {where}")


def refuse_patterns(check: str, site: Site) -> None:
    """Refuse options and patterns for a check that has its own.

    :raises ReframeError: the site gives some.
    """
    software = site.software_of(check)
    if software.options or software.patterns:
        raise ReframeError(f"{_place(check, site)}: it knows its own options and patterns: leave them out")


def filled_in(
    check: str, site: Site, metrics: Sequence[Metric], answers: Sequence[Answer], rank_count: Answer | None
) -> tuple[list[Metric], list[Answer], Answer | None]:
    """Return metrics, answers and the rank count with the patterns that the site gives by name.

    An answer without a pattern is left out.

    :raises ReframeError: a pattern is given for something that the check does not have.
    :raises Misconfigured: a metric or the rank count has no pattern.
    """
    given, where = site.software_of(check).patterns, f"{_place(check, site)}, patterns"
    counts = [rank_count] if rank_count else []
    all_facts: tuple[Any, ...] = (*metrics, *answers, *counts)
    known = sorted(fact.name for fact in all_facts)
    if unknown := sorted(given.keys() - set(known)):
        raise ReframeError(f"{where}: {check} has no {', '.join(unknown)}; it has {', '.join(known)}")

    def with_patterns(facts: Iterable[Any]) -> list[Any]:
        return [replace(fact, pattern=given.get(fact.name, fact.pattern)) for fact in facts]

    metrics, answers, counts = (with_patterns(facts) for facts in (metrics, answers, counts))
    if lacking := [fact.name for fact in (*metrics, *counts) if fact.pattern == SITES]:
        raise Misconfigured(f"no pattern of {', '.join(lacking)}: only a site knows what {check} prints: {where}")
    rank_count = counts[0] if counts else None
    return list(metrics), [answer for answer in answers if answer.pattern != SITES], rank_count


def copy_command(path: str) -> str:
    """Return the command that copies an input, a file or the content of a directory, into the working directory."""
    quoted = shlex.quote(path)
    return f"if [ -d {quoted} ]; then cp -r {quoted}/. .; else cp {quoted} .; fi"


def _place(check: str, site: Site) -> str:
    return f"site file, extras of {site.partition}: {NAMESPACE}: software: {check}"
