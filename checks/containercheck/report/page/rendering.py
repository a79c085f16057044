"""Render the page as HTML; the template engine escapes every text that comes from a result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from containercheck.report.page import failures, palette, states, wording
from containercheck.report.page.contents import Page
from containercheck.results.formatting import count

TEMPLATES = Path(__file__).resolve().parent / "templates"


def html(page: Page, files: Sequence[str]) -> str:
    """Return the page as HTML.

    :param files: names of the CSV files beside it: figures and series.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html")
    return template.render(
        page=page,
        files=[(name, quote(name)) for name in files],
        states=states.ALL,
        open_state=states.OPEN,
        skipped_state=states.SKIP,
        most_told=failures.MOST,
        light=palette.variables(),
        dark=palette.variables(dark=True),
        style=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        count=count,
    )


def _clean(value: Any) -> Any:
    """Return a text without the characters that a page cannot hold; markup and other values stay as they are."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else wording.plain(value)
