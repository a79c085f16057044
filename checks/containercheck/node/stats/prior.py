"""What is known of a figure before its first round: how far its rounds scatter, and from where that is known.

Standard library only, Python 3.6 or newer.
"""

from typing import NamedTuple


class Prior(NamedTuple):
    """The known spread of a figure's rounds.

    :ivar spread: standard deviation of the overheads of rounds, in percent (100 times that of d) or the figure's unit.
    :ivar source: where it is known from, as the results say it: ``12 nights``, ``the integrated variant``,
        ``the check`` or ``default``.
    """

    spread: float
    source: str
