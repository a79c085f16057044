"""Rounds that an earlier session measured, from ReFrame's report of it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError


def rounds_of(report: str, unique_name: str, partition: str) -> list[dict[str, dict[str, float]]]:
    """Return the rounds of a case in a report: of each one side, figure and value; none where there is no report.

    :param report: path of ReFrame's report; empty for none.
    :raises ReframeError: it cannot be read.
    """
    if not report:
        return []
    cases = [one for one in _cases(report) if (one["unique_name"], _partition(one)) == (unique_name, partition)]
    return cases[-1].get("measured", []) if cases else []


def _partition(case: dict[str, Any]) -> str:
    return f"{case['system']}:{case['partition']}"


@functools.lru_cache(maxsize=1)
def _cases(report: str) -> list[dict[str, Any]]:
    try:
        return [case for run in json.loads(Path(report).read_text())["runs"] for case in run["testcases"]]
    except (OSError, ValueError, KeyError) as error:
        raise ReframeError(f"cannot read the earlier session's report {report}: {error}") from None
