"""The shared part of the checks. An application file needs the names in ``__all__`` from here."""

import sys


def _require() -> None:
    """Stop the session, in one line, where ReFrame runs without what the library needs.

    Any other exception here would be a warning to ReFrame, and a session without tests that passes.
    """
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.exit(f"containercheck: no numpy in ReFrame's Python: run '{sys.executable} -m pip install numpy'")
    import reframe

    if tuple(int(part) for part in reframe.VERSION.split(".")[:2]) < (4, 10):
        sys.exit(f"containercheck: ReFrame {reframe.VERSION} is too old: run 'pip install reframe-hpc==4.10.4'")


_require()

from containercheck.check import ContainerCheck, OneNodeCheck  # noqa: E402
from containercheck.facts import STDOUT, Answer, Figure, Step, by_ratio, seconds_of  # noqa: E402
from containercheck.placement import FilePlacement, ImagePlacement  # noqa: E402

__all__ = [
    "STDOUT",
    "Answer",
    "ContainerCheck",
    "Figure",
    "FilePlacement",
    "ImagePlacement",
    "OneNodeCheck",
    "Step",
    "by_ratio",
    "seconds_of",
]
