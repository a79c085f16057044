"""Put numbers and sizes into words, and read lists of processors.

Standard library only, Python 3.6 or newer.
"""

import math
from typing import Optional, Set


def number(value: Optional[float], digits: int = 4, sign: str = "") -> str:
    """Return a number with a given count of significant digits and no exponent; a question mark for None and NaN."""
    if value is None or math.isnan(value):
        return "?"
    if math.isinf(value):
        return "-∞" if value < 0 else f"{sign}∞"
    # A rounding error of equal numbers' difference is 0; adding 0 removes the sign of -0.
    value = 0.0 if abs(value) < 1e-12 else value + 0.0
    places = 0 if value == 0 else digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):{sign}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(count: float) -> str:
    """Return a number of bytes in words.

    >>> [size(count) for count in (8 << 20, 11 << 30, 512)]
    ['8 MiB', '11 GiB', '512 B']
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor, 3)} {unit}"
    return f"{count:.0f} B"


def cores_of(text: str) -> Set[int]:
    """Return the processors in a list as Linux writes it.

    >>> sorted(cores_of("0-2,8"))
    [0, 1, 2, 8]
    """
    processors: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        processors.update(range(int(first), int(last or first) + 1))
    return processors
