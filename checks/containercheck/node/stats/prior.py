"""The known spread of a figure: what is known before its first round, and its source.

Standard library only, Python 3.6 or newer.
"""

from typing import NamedTuple


class Prior(NamedTuple):
    """The known spread of a figure's rounds.

    :ivar spread: standard deviation of the overheads of rounds, in percent (100 times that of d) or the figure's unit.
    :ivar source: its source, as in the results: ``12 nights``, ``the integrated variant``,
        ``the check`` or ``default``.
    """

    spread: float
    source: str
