"""Helpers for the inputs of applications."""

import math


def grid(ranks: int) -> tuple[int, int]:
    """Return rows and columns of a process grid as near to a square as the number of ranks allows; rows >= columns."""
    columns = next(number for number in range(math.isqrt(ranks), 0, -1) if ranks % number == 0)
    return ranks // columns, columns
