"""What has to be so before application files load: the version of ReFrame, and a site file without mistakes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

#: The oldest ReFrame that will do, and the one that is tested with.
OLDEST, TESTED = (4, 10), "4.10.4"


@functools.cache
def require() -> None:
    """Stop the session, in one line, where ReFrame is too old for the library or the site file has a mistake.

    Any other exception than the end of the process would be a warning to ReFrame, and a session without tests that
    passes.

    :raises SystemExit: it says what is wrong.
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
