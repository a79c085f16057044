"""The shared part of the checks. An application file needs the names in ``__all__`` from here."""

import sys


def _require() -> None:
    """Stop the session, in one line, where ReFrame is too old for the library.

    Any other exception here would be a warning to ReFrame, and a session without tests that passes.
    """
    import reframe

    if tuple(int(part) for part in reframe.VERSION.split(".")[:2]) < (4, 10):
        sys.exit(f"containercheck: ReFrame {reframe.VERSION} is too old: run 'pip install reframe-hpc==4.10.4'")


def _read_site() -> None:
    """Stop the session, in one line, where the site file has a mistake."""
    from containercheck import sites

    try:
        sites.current()
    except sites.SiteError as error:
        sys.exit(f"containercheck: {error}")


_require()
_read_site()

from containercheck.axes import FilePlacement, ImagePlacement, ReleaseOfImage  # noqa: E402
from containercheck.check import ContainerCheck, OneNodeCheck  # noqa: E402
from containercheck.facts import (  # noqa: E402
    RUN_BEGAN,
    STDOUT,
    Answer,
    Figure,
    Identity,
    Step,
    Work,
    by_ratio,
    seconds_of,
    skip_unless,
)
from containercheck.licensed import SITES  # noqa: E402
from containercheck.sides import Candidate  # noqa: E402

__all__ = [
    "RUN_BEGAN",
    "SITES",
    "STDOUT",
    "Answer",
    "Candidate",
    "ContainerCheck",
    "Figure",
    "FilePlacement",
    "Identity",
    "ImagePlacement",
    "OneNodeCheck",
    "ReleaseOfImage",
    "Step",
    "Work",
    "by_ratio",
    "seconds_of",
    "skip_unless",
]
