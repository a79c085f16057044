"""Check the version of ReFrame and the site file before application files load."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

#: The oldest ReFrame that will do, and the one that is tested with.
OLDEST, TESTED = (4, 10), "4.10.4"


@functools.cache
def require() -> None:
    """Exit with one line if ReFrame is too old for the library, or if the site file has a mistake.

    ReFrame only warns about other exceptions. The session would then have no tests, and pass.

    :raises SystemExit: the message names the problem.
    """
    import reframe

    if tuple(int(part) for part in reframe.VERSION.split(".")[:2]) < OLDEST:
        sys.exit(f"containercheck: ReFrame {reframe.VERSION} is too old: run 'pip install reframe-hpc=={TESTED}'")
    from containercheck import reframe_internals
    from containercheck.site import sites

    try:
        sites.current()
    except sites.SiteError as error:
        sys.exit(f"containercheck: {error}")
    reframe_internals.listen(_shown)


def _shown(testcase: Mapping[str, Any]) -> str:
    """Return the line of a case that has ended, and why it failed, as a session shows it."""
    # Not before: a listing needs none of this.
    from containercheck.report.view import CaseView
    from containercheck.results.cases import collect

    return CaseView(sys.stdout.isatty()).ended(collect([{"runs": [{"testcases": [testcase]}]}])[0])
