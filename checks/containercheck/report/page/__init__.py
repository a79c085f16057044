"""The HTML report: the results of a night, and the changes since earlier nights, as one static file.

It needs no network and no script. ``contents`` collects its parts as values: changes and trends, the cases (states,
failures, matrix), the plots and tables of each application (over_axis, and kept_files for the files that a run keeps),
the figures of the documents beside ours (as_published, courses), and provenance. ``drawing`` draws all plots, and the
files in ``templates`` make the page. Its data lie beside it as CSV (data).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from containercheck.history.change_points import Change
    from containercheck.history.nights import Night
    from containercheck.history.series import Series


def write(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[Change],
    path: Path,
    problems: Sequence[str] = (),
) -> list[Path]:
    """Write the page, and beside it its data as CSV: ``NAME-metrics.csv`` and ``NAME-series.csv``; each in one step.

    :param nights: as ``history.nights.nights`` returns them: the last one is shown, with those before it as trends.
    :param series: as ``history.series.series`` returns them, of these nights.
    :param changes: as ``history.changes.standing`` returns them, of all these series.
    :param problems: problems besides the results, a line each; shown first.
    :returns: the files, the page first.
    :raises OSError: a file cannot be written; an earlier file stays.
    :raises ValueError: there is no night.
    """
    # matplotlib takes half a second to load, which commands without a page save.
    from containercheck.report.page import contents, data
    from containercheck.results.cases import write_file

    if not nights:
        raise ValueError("there is no night to show")
    metrics, points = (path.with_name(f"{path.stem}-{what}.csv") for what in ("metrics", "series"))
    shown = contents.html(nights, series, changes, problems, (metrics.name, points.name))
    write_file(metrics, data.metrics(nights[-1]))
    write_file(points, data.series(series))
    # Last, because it links to the others.
    write_file(path, shown)
    return [path, metrics, points]
