"""A plot with its title, a description in words, and its data as a table."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from containercheck.report.page.svg import part_of_page
from containercheck.report.page.wording import Table, plain

#: Most plots on a page: each takes 50 to 100 ms to draw, and 15 kB.
MOST = 100
#: Most of these for changed trends, and for each application.
MOST_CHANGED, MOST_OF_APPLICATION = 30, 8
#: Most plots over the axes of an application, and over its policies, beside those.
MOST_OF_AXES, MOST_OF_POLICIES = 8, 8
#: Most plots over versions of the runtime.
MOST_OF_VERSIONS = 12
#: Most maps of pairs of an application, and plots of its ranks' time in MPI, beside those.
MOST_OF_MAPS, MOST_OF_RANKS = 8, 4


@dataclass(frozen=True)
class Chart:
    """A plot of a page.

    :ivar name: identifies it on the page.
    """

    name: str
    title: str
    description: str
    svg: Markup
    table: Table

    @classmethod
    def of(cls, name: str, title: str, description: str, drawing: str, table: Table) -> Chart:
        """Make a plot from a drawing of drawing.py."""
        title, description = plain(title), plain(description)
        return cls(name, title, description, part_of_page(drawing, name, title, description), table)
