"""References from ``checks/references/<Check>.yaml``, keyed by partition, variant and node count.

They are ReFrame's own (``$ref`` and ``$index``). A key that ends in ``_overhead`` says what a figure's overhead is
expected to be; the verdict judges that by the interval, so ReFrame's comparison of a single number is kept from it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.utility.sanity import reference_bounds

OVERHEAD = "_overhead"
#: How every file of references is keyed.
INDEX = "$index: [$partition, variant, num_nodes]"


def file_of(prefix: str, check: str) -> dict[str, str]:
    """Return the value for a check's ``reference``: its file, where there is one.

    :raises ReframeError: the file does not say how it is keyed, of which ReFrame tells no more than "key error: 0".
    """
    path = Path("references", f"{check}.yaml")
    try:
        text = (Path(prefix) / path).read_text()
    except FileNotFoundError:
        return {}
    if not re.search(rf"^{check}:\n +{re.escape(INDEX)}$", text, re.MULTILINE):
        raise ReframeError(f"{path} must begin with '{check}:' and, indented on the next line, '{INDEX}'")
    return {"$ref": str(path)}


def split(check: Any) -> tuple[dict[str, tuple], dict[str, tuple[float, float]]]:
    """Return the references of this case: the absolute ones, and the ranges of expected overheads by figure.

    :raises ReframeError: an overhead is given for a figure that the check does not have.
    """
    if not getattr(check.reference, "index", None):
        return {}, {}
    try:
        found = dict(check.reference[check])
    except KeyError:
        return {}, {}
    absolute = {name: value for name, value in found.items() if not name.endswith(OVERHEAD)}
    ranges = {}
    for name, value in found.items():
        if name.endswith(OVERHEAD):
            low, high = reference_bounds(*value[:3])
            ranges[name.removesuffix(OVERHEAD)] = (
                -math.inf if low is None else low,
                math.inf if high is None else high,
            )
    if unknown := ranges.keys() - {figure.name for figure in check.figures}:
        raise ReframeError(f"references of {type(check).__name__}: no figure {', '.join(sorted(unknown))}")
    return absolute, ranges
