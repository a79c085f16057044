"""Show how often trends raise a false alarm, and how many nights it takes to find a change.

    python ci/benchmarks/trends.py [--quick] [--seed N] [DATABASE ...]

Simulated are sites of 100 series, night after night, as ci/nightly goes: what is proposed is measured again in the same
night, with fresh rounds but the same night about it, and only what that confirms is an alarm. Twelve series change, for
the worse, after a number of nights: four by 3, four by 5, four by 10 %. Spread is the standard deviation of a night; a
series has more or less of it, by a factor of 1.35 (one standard deviation). A fifth of its variance is from the rounds.

*Alarms* and *reruns* are per 100 series and night, of series that did not change, over 14 nights. *Found* is after how
many nights half of the changes were confirmed: 1 is the first night that had it, - is not within 14. Beside it stands
the published method alone, on the same samples: the best split by the energy statistic, and Student's t at 0.001.

A DATABASE is one of ReFrame's: each session that measures a case again is a night. Changes are planted in one series of
ten: from the fourth of these nights on; then in nights drawn from them with replacement, after ten, and there once more
in the series that spread least. What is confirmed is the same value again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from containercheck.history import change_points, nights, series
from containercheck.results import database
from containercheck.results.database import StoredSession
from nightly_sites import FOLLOWED, NOISES, SIZES, Site, drawn, followed, planted, published

SERIES = 100
SPREADS = (1.0, 3.0, 6.0)
HISTORIES = (3, 5, 10, 30)
HEADING = f"{'alarms':>8}{'reruns':>7}  {'found':>12}   published: the same"
#: Fewest nights of a real series.
FEWEST = 4
#: Real nights drawn before those that are followed.
DRAWN = 10


def simulated(sites: int, seed: int) -> None:
    """Print the tables of simulated sites: first of those where no recorded fact changes."""
    for is_renewed in (False, True):
        print("\nsomething that is recorded is new in the night of the changes" if is_renewed else "", end="")
        _simulated(sites, seed, is_renewed)


def _simulated(sites: int, seed: int, is_renewed: bool) -> None:
    print(f"\n{SERIES} series, {sites} sites a line; found: half of the changes of 3, 5, 10 %, after nights")
    print(f"{'nights are':12}{'spread':>7}{'history':>9} {HEADING}")
    for name, noise in NOISES.items():
        for spread in SPREADS:
            for history in HISTORIES:
                draw = np.random.default_rng(seed)
                site = drawn(draw, noise, (sites, SERIES, history + FOLLOWED), spread)
                line = f"{name:12}{spread:5.0f} %{history:9} {followed(site, is_renewed)}"
                print(line if is_renewed else f"{line}   {published(site)}", flush=True)


def as_nights(sessions: Iterable[StoredSession]) -> Iterator[StoredSession]:
    """Yield sessions with names of nights; a night begins where a session measures a case again, from the beginning."""
    number, seen = 0, set()
    for session in sessions:
        measured = {case["name"] for case in session.testcases if case.get("measured") and not case.get("runtimes")}
        anew = {case["name"] for case in session.testcases if case.get("measured") and not case.get("earlier")}
        if anew & seen:
            number, seen = number + 1, set()
        seen |= measured
        yield replace(session, info={**session.info, nights.NIGHT: f"{number:04}"})


def in_percent(values: series.Series) -> bool:
    """Tell whether changes of a series are in percent."""
    return min(point.value for point in values.points) > 0 if values.kind == series.BARE else values.unit == "%"


def real(path: Path, sites: int, seed: int) -> None:
    """Print the same for the sessions in a database: as they came, and drawn with replacement."""
    stored = series.series(nights.nights(as_nights(database.read(path).made)))
    usable = [values for values in stored if len(values.points) >= FEWEST and in_percent(values)]
    if not usable:
        print(f"\n{path}: no series of {FEWEST} nights")
        return
    measured = change_points.measured(usable)
    # Upwards is worse.
    rates = [values.kind == series.BARE and values.better == "higher" for values in usable]
    worse = np.where(rates, -1, 1)
    measured = replace(measured, values=worse[:, None] * measured.values)
    spreads = np.nanstd(measured.values, axis=-1, ddof=1)
    count = measured.values.shape[-1]
    print(f"\n{path}: {len(usable)} series, {count} nights, which spread by {np.median(spreads):.1f} % (median)")
    print(f"{'':28} {HEADING}")
    draw = np.random.default_rng(seed)
    each = max(1, len(usable) // 10 // len(SIZES))
    anywhere, quietest = draw.permutation(len(usable)), np.argsort(np.argsort(spreads))
    many = draw.integers(0, count, (sites, DRAWN + FOLLOWED))
    for name, drawn_nights, changed, order in (
        ("as they came", np.arange(count)[None], FEWEST - 1, anywhere),
        ("drawn", many, DRAWN, anywhere),
        ("drawn, the quietest change", many, DRAWN, quietest),
    ):
        values, errors = (np.moveaxis(array[:, drawn_nights], 1, 0) for array in (measured.values, measured.errors))
        sizes = planted(len(usable), each)[order]
        values = values + sizes[:, None] * (np.arange(values.shape[-1]) >= changed)
        site = Site(values, values, errors, sizes, changed, measured.groups)
        print(f"{name:28} {followed(site)}   {published(site)}", flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples: below a minute")
    parser.add_argument("--seed", type=int, default=1, help="of all samples (default: 1)")
    parser.add_argument("databases", nargs="*", type=Path, metavar="DATABASE", help="results of real sessions")
    options = parser.parse_args()
    began = time.monotonic()
    simulated(1 if options.quick else 6, options.seed)
    for path in options.databases:
        real(path, 5 if options.quick else 20, options.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
