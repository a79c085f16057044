"""References from ``<Check>.yaml``, in the site's own directory or in ours, keyed by partition, variant and node count.

A file may be keyed by axes of its check too, for numbers that depend on them. They are ReFrame's own (``$ref`` and
``$index``). A key that ends in ``_overhead`` says what a figure's overhead is expected to be; the verdict judges that
by the interval, so ReFrame's comparison of a single number is kept from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest
from reframe.utility.sanity import reference_bounds

from containercheck.application.facts import Figure
from containercheck.site.extras import NAMESPACE
from containercheck.site.sites import Site, path_of

OVERHEAD = "_overhead"
#: Part of what a container may take more than the host by which its successor may exceed that.
MARGIN = 0.2
#: How every file of references is keyed; it may go on with axes of the check, for numbers that depend on them.
INDEX = "$index: [$partition, variant, num_nodes]"
KEYED = rf"{re.escape(INDEX[:-1])}(, \w+)*\]"


def file_of(site: Site, prefix: str, check: str) -> dict[str, str]:
    """Return the value for a check's ``reference``: its file, where there is one. The site's takes the place of ours.

    :param prefix: the directory of the checks.
    :raises ReframeError: the site names a directory that is not there; or the file does not say how it is keyed, of
        which ReFrame tells no more than "key error: 0".
    """
    directories = [Path("references")]
    if site.references:
        directories.insert(0, path_of(site.references).absolute())
        if not directories[0].is_dir():
            where = f"site file, extras of {site.partition}: {NAMESPACE}"
            raise ReframeError(f"{where}: references: no directory {directories[0]}")
    files = (directory / f"{check}.yaml" for directory in directories)
    path = next((file for file in files if (Path(prefix) / file).exists()), None)
    if path is None:
        return {}
    text = (Path(prefix) / path).read_text()
    if not re.search(rf"^{check}:\n +{KEYED}$", text, re.MULTILINE):
        raise ReframeError(f"{path} must begin with '{check}:' and, indented on the next line, '{INDEX}'")
    return {"$ref": str(path)}


def case_references(check: RegressionTest) -> dict[str, tuple]:
    """Return what the file says of this case, as ReFrame finds it; empty where it says nothing."""
    if not getattr(check.reference, "index", None):
        return {}
    try:
        return dict(check.reference[check])
    except KeyError:
        return {}


class Expected(NamedTuple):
    """State an overhead that a reference expects (None without one), and the range that is accepted around it.

    In percent, or in the figure's unit where it is compared by difference.
    """

    value: float | None
    lowest: float
    highest: float


def split(
    found: Mapping[str, tuple], figures: Iterable[Figure], emulated: bool = False
) -> tuple[dict[str, tuple], dict[str, Expected]]:
    """Return the references of a case: the absolute ones, and the expected overheads by figure.

    :param found: see :func:`of_case`.
    :param emulated: whether the nodes' processors are: absolute figures then say nothing, and have no reference.
    :raises ReframeError: an overhead is given for a figure that the check does not have, or its bounds accept nothing.
    """
    absolute = {name: value for name, value in found.items() if not name.endswith(OVERHEAD) and not emulated}
    own = {name.removesuffix(OVERHEAD) for name in found if name.endswith(OVERHEAD)}
    if unknown := own - {figure.name for figure in figures}:
        raise ReframeError(
            f"references: an overhead is expected of {', '.join(sorted(unknown))}: no figure of the check"
        )
    ranges = {}
    for name, value in found.items():
        if name.endswith(OVERHEAD):
            try:
                low, high = reference_bounds(*value[:3])
            except ValueError as error:
                raise ReframeError(f"references: {name}: {error}") from None
            if low == high:
                raise ReframeError(f"references: {name}: no overhead lies between {low:g} and {high:g}")
            ranges[name.removesuffix(OVERHEAD)] = Expected(value[0], low, high)
    return absolute, ranges


def margins(figures: Iterable[Figure], usual: float) -> dict[str, tuple[float, float]]:
    """Return the range in which the overhead of each figure must lie where two containers are compared, by its name.

    :param usual: in percent, for a ratio that has neither margin nor tolerance of its own.
    """
    found = {}
    for figure in figures:
        own = usual if figure.tolerance is None else figure.tolerance
        part = MARGIN if figure.compare == "difference" else 1.0
        found[figure.name] = (-math.inf, part * own if figure.margin is None else figure.margin)
    return found


def accepted(
    figures: Iterable[Figure],
    expected: Mapping[str, Expected],
    tolerances: Mapping[str, float],
    usual: float,
) -> dict[str, dict[str, Any]]:
    """Return how the overhead of each figure is judged, by its name, as in ``facts.json``.

    That is the range in which it must lie (``accepted``), and the overhead that a reference expects in it
    (``expected``), which need not be its middle; None without a reference.

    :param expected: what references give; it goes first.
    :param tolerances: the site's own by figure, which come next; then the figure's.
    :param usual: the tolerance of a figure that has none of those.
    """
    found = {}
    for figure in figures:
        own = usual if figure.tolerance is None else figure.tolerance
        tolerated = Expected(None, -math.inf, tolerances.get(figure.name, own))
        value, lowest, highest = expected.get(figure.name, tolerated)
        found[figure.name] = {"accepted": (lowest, highest), "expected": value}
    return found
