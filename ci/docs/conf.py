"""Configure the documentation site: Sphinx with MyST. Pages are Markdown, and their tables come from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import tables

project = "containercheck"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "page_width": "1240px",
    "body_max_width": "auto",
    "sidebar_width": "240px",
    "font_family": "sans-serif",
    "font_size": "15px",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
myst_heading_anchors = 3
#: Documents that stay where people look for them, by the page that includes them.
ELSEWHERE = {
    "index": "README.md",
    "contributing": ".github/CONTRIBUTING.md",
    "security": ".github/SECURITY.md",
    "conduct": ".github/CODE_OF_CONDUCT.md",
    "changelog": "CHANGELOG.md",
}


def read(app: Any, name: str, source: list[str]) -> None:
    """Fill the placeholders of a page: tables, or a document from elsewhere with its links as they are here."""
    text = tables.filled(source[0])
    if name in ELSEWHERE:
        path = tables.REPOSITORY / ELSEWHERE[name]
        text = text.replace("<!-- document -->", path.read_text())
    for page, document in ELSEWHERE.items():
        for link in (document, f"../{document}", f"../../{document}", Path(document).name):
            text = text.replace(f"]({link}", f"]({page}.md")
    source[0] = (
        text.replace("](../ci/docs/", "](").replace("](ci/docs/", "](").replace("](.github/", "](../../.github/")
    )


def setup(app: Any) -> None:
    """Register the function that reads pages."""
    app.connect("source-read", read)
