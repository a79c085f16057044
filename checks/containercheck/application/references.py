"""Read references from ``<Check>.yaml``, of the site or the project, keyed by partition, variant and node count.

A file may also be keyed by ``input`` and by axes of its check, for numbers that depend on them. Its format is
ReFrame's (``$ref`` and ``$index``). A key that ends in ``_overhead`` is the expected overhead of a metric; the verdict
judges it by the interval, so ReFrame does not get it, and does not compare it as a single number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest
from reframe.utility.sanity import reference_bounds

from containercheck.application.declare import Metric
from containercheck.job import texts
from containercheck.site.extras import path_of
from containercheck.site.sites import Site

#: Suffix of the key of an expected overhead.
OVERHEAD = "_overhead"
#: Default margin of a successor, as a part of the tolerance against the host, for metrics compared by difference.
MARGIN = 0.2
#: Key of every file of references; ``input`` and axes of the check may follow, for numbers that depend on them.
INDEX = "$index: [$partition, variant, num_nodes]"
KEYED = rf"{re.escape(INDEX[:-1])}(, \w+)*\]"

_names: dict[str, set[str]] = {}


def metric_names(check: str, metrics: Iterable[Metric] = ()) -> set[str]:
    """Return the names of the metrics that the cases of a check have, of which a site or a file may name each.

    A case may lack some: other sizes, ways of access or numbers of ranks have their own metrics.

    :param check: name of the check.
    :param metrics: those of a case, which are added.
    """
    names = _names.setdefault(check, set())
    names.update(metric.name for metric in metrics)
    return names


def file_of(site: Site, prefix: str, check: str) -> dict[str, str]:
    """Return the value for a check's ``reference``: its file, if there is one. The site's file replaces the project's.

    The site's directory may be absent: ``containercheck references --write`` makes it after ten nights.

    :param prefix: the directory of the checks.
    :raises OSError: the file is not readable.
    :raises ReframeError: it does not have the right key: ReFrame's own message for that is "key error: 0".
    """
    directories = [Path("references")]
    if site.references:
        directories.insert(0, path_of(site.references).absolute())
    files = (directory / f"{check}.yaml" for directory in directories)
    path = next((file for file in files if (Path(prefix) / file).exists()), None)
    if path is None:
        return {}
    text = texts.utf8(Path(prefix) / path)
    if not re.search(rf"^{check}:\n +{KEYED}$", text, re.MULTILINE):
        raise ReframeError(f"{path} must begin with '{check}:' and, indented on the next line, '{INDEX}'")
    return {"$ref": str(path)}


def case_references(check: RegressionTest) -> dict[str, tuple[Any, ...]]:
    """Return the references of this case, as ReFrame finds them; empty if there are none."""
    if not getattr(check.reference, "index", None):
        return {}
    try:
        return dict(check.reference[check])
    except KeyError:
        return {}


class Expected(NamedTuple):
    """Hold the overhead that a reference expects (None without one), and the accepted range around it.

    In percent, or in the metric's unit if it is compared by difference.
    """

    value: float | None
    lowest: float
    highest: float


def split(
    values: Mapping[str, tuple[Any, ...]], metrics: Iterable[Metric], others: Collection[str] = ()
) -> tuple[dict[str, tuple[Any, ...]], dict[str, Expected]]:
    """Return the references of a case: the absolute ones, and the expected overheads by metric.

    :param values: see :func:`case_references`.
    :param others: names of metrics that other cases of the check have; there is nothing to expect of them here.
    :raises ReframeError: an overhead is given for a metric that the check does not have, or its bounds accept nothing.
    """
    absolute = {name: value for name, value in values.items() if not name.endswith(OVERHEAD)}
    overheads = {name.removesuffix(OVERHEAD): value for name, value in values.items() if name.endswith(OVERHEAD)}
    own = {metric.name for metric in metrics}
    if unknown := overheads.keys() - own - {*others}:
        raise ReframeError(
            f"references: an overhead is expected of {', '.join(sorted(unknown))}: no metric of the check"
        )
    ranges = {name: _range(name, value) for name, value in overheads.items()}
    return absolute, {name: expected for name, expected in ranges.items() if name in own}


def _range(name: str, value: tuple[Any, ...]) -> Expected:
    """Return the expected overhead of a metric, from its reference in ReFrame's form.

    :raises ReframeError: its bounds accept nothing.
    """
    try:
        low, high = reference_bounds(*value[:3])
    except ValueError as error:
        raise ReframeError(f"references: {name}{OVERHEAD}: {error}") from None
    if low == high:
        raise ReframeError(f"references: {name}{OVERHEAD}: no overhead lies between {low:g} and {high:g}")
    return Expected(value[0], low, high)


def margins(metrics: Iterable[Metric], usual: float) -> dict[str, tuple[float, float]]:
    """Return the accepted range of each metric's overhead between two containers, by the metric's name.

    :param usual: in percent, for a ratio without its own margin or tolerance.
    """
    ranges = {}
    for metric in metrics:
        tolerance = usual if metric.tolerance is None else metric.tolerance
        part = MARGIN if metric.compare == "difference" else 1.0
        ranges[metric.name] = (-math.inf, part * tolerance)
    return ranges


def accepted(
    metrics: Iterable[Metric],
    expected: Mapping[str, Expected],
    tolerances: Mapping[str, float],
    usual: float,
) -> dict[str, dict[str, Any]]:
    """Return how the overhead of each metric is judged, by its name, as in ``facts.json``.

    The overhead must lie in the range ``accepted``. ``expected`` is the overhead that a reference expects; None without
    a reference. It need not be the middle of the range.

    :param expected: overheads from references, which come first.
    :param tolerances: the site's own by metric, which come next; then the metric's.
    :param usual: the tolerance of a metric that has none of those.
    """
    judged = {}
    for metric in metrics:
        tolerance = usual if metric.tolerance is None else metric.tolerance
        tolerated = Expected(None, -math.inf, tolerances.get(metric.name, tolerance))
        value, lowest, highest = expected.get(metric.name, tolerated)
        judged[metric.name] = {"accepted": (lowest, highest), "expected": value}
    return judged
