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

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest
from reframe.utility.sanity import reference_bounds

from containercheck.facts import Figure
from containercheck.sites import Site, path_of

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
            raise ReframeError(f"site file, extras of {site.partition}: references: no directory {directories[0]}")
    files = (directory / f"{check}.yaml" for directory in directories)
    path = next((file for file in files if (Path(prefix) / file).exists()), None)
    if path is None:
        return {}
    text = (Path(prefix) / path).read_text()
    if not re.search(rf"^{check}:\n +{KEYED}$", text, re.MULTILINE):
        raise ReframeError(f"{path} must begin with '{check}:' and, indented on the next line, '{INDEX}'")
    return {"$ref": str(path)}


def of_case(check: RegressionTest) -> dict[str, tuple]:
    """Return what the file says of this case, as ReFrame finds it; empty where it says nothing."""
    if not getattr(check.reference, "index", None):
        return {}
    try:
        return dict(check.reference[check])
    except KeyError:
        return {}


def split(
    found: Mapping[str, tuple], figures: Iterable[Figure], emulated: bool = False
) -> tuple[dict[str, tuple], dict[str, tuple[float, float]]]:
    """Return the references of a case: the absolute ones, and the ranges of expected overheads by figure.

    :param found: see :func:`of_case`.
    :param emulated: whether the nodes' processors are: absolute figures then say nothing, and have no reference.
    :raises ReframeError: an overhead is given for a figure that the check does not have.
    """
    absolute = {name: value for name, value in found.items() if not name.endswith(OVERHEAD) and not emulated}
    ranges = {}
    for name, value in found.items():
        if name.endswith(OVERHEAD):
            low, high = reference_bounds(*value[:3])
            ranges[name.removesuffix(OVERHEAD)] = (
                -math.inf if low is None else low,
                math.inf if high is None else high,
            )
    if unknown := ranges.keys() - {figure.name for figure in figures}:
        raise ReframeError(
            f"references: an overhead is expected of {', '.join(sorted(unknown))}: no figure of the check"
        )
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
    expected: Mapping[str, tuple[float, float]],
    tolerances: Mapping[str, float],
    usual: float,
) -> dict[str, tuple[float, float]]:
    """Return the range in which the overhead of each figure must lie, by its name.

    :param expected: the ranges that references give; they go first.
    :param tolerances: the site's own by figure, which come next; then the figure's.
    :param usual: the tolerance of a figure that has none of those.
    """
    found = {}
    for figure in figures:
        own = usual if figure.tolerance is None else figure.tolerance
        found[figure.name] = expected.get(figure.name, (-math.inf, tolerances.get(figure.name, own)))
    return found
