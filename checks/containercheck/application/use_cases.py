"""Use cases of D12.5 section 3.2: how many programs share a node, with how many ranks and threads each."""

from __future__ import annotations

#: Ranks and threads of the five programs of D12.5's use case (figure 16), which fill 48 cores.
FIVE = ((3, 2), (6, 3), (2, 2), (2, 5), (5, 2))
#: Mixes on the 24 cores of a socket (tables 1 and 2).
MIXES = {"2x12": (2, 12), "4x6": (4, 6), "6x4": (6, 4), "8x3": (8, 3), "12x2": (12, 2)}
#: The mix on a whole node of a single program, Amber (section 3.3.2).
WHOLE = {"8x6": (8, 6)}
#: Cores on which each use case fits.
MOST_CORES = 48


def mixes(name: str, cores: int) -> list[tuple[int, int]]:
    """Return ranks and threads of the programs of a use case; none if it does not fit.

    :param name: ``one`` or ``two`` programs with a rank on each core of theirs, ``five`` as in D12.5, or one of its
        mixes, alone on a socket (``1 of 8x3``), one on each (``2 of 8x3``), or alone on a node (``8x6``).
    """
    if name in ("one", "two"):
        count = ("one", "two").index(name) + 1
        return [(cores // count, 1)] * count if cores >= count else []
    fixed = {"five": [*FIVE], **{mix: [ranks_and_threads] for mix, ranks_and_threads in WHOLE.items()}}
    chosen = fixed[name] if name in fixed else [MIXES[name[5:]]] * int(name[0])
    return chosen if sum(ranks * threads for ranks, threads in chosen) <= cores else []
