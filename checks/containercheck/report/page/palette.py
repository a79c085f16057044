"""Colors of the page and of its plots, in light and in dark.

Series have the colors of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of color
vision tell apart; each also has its own marker and line style. Text has a contrast of 4.5:1 to its ground and drawings
3:1 (WCAG 2.1, 1.4.3 and 1.4.11); test_page_looks.py computes it.
"""

from __future__ import annotations

#: Light and dark color by name. The light ones differ from each other, because a plot is drawn in them and they are
#: then replaced with the names (svg.py).
COLORS = {
    "ground": ("#ffffff", "#14181b"),
    "raised": ("#f1f4f6", "#20262b"),
    "text": ("#1b1e21", "#e9ecee"),
    "muted": ("#555c63", "#aab2b9"),
    "line": ("#c8ced4", "#4a525a"),
    "edge": ("#7d868e", "#818a92"),
    "link": ("#00548a", "#86c8f7"),
    "bad": ("#a23b00", "#ffa366"),
    "good": ("#00694d", "#45cda5"),
    "doubt": ("#6a5000", "#e8c45f"),
    "series-1": ("#0072b2", "#56b4e9"),
    "series-2": ("#d55e00", "#e69f00"),
    "series-3": ("#009e73", "#009e73"),
    "series-4": ("#cc79a7", "#cc79a7"),
    # Ten steps of cividis (J. Nuñez, C. Anderton, R. Renslow, PLOS ONE, 2018), whose differences look alike to people
    # with any kind of color vision. Large values stand out most from both grounds, so the dark ones run backwards.
    "scale-1": ("#f9e03a", "#2f426d"),
    "scale-2": ("#dac65b", "#48526c"),
    "scale-3": ("#bdae6c", "#5e626e"),
    "scale-4": ("#a09875", "#727374"),
    "scale-5": ("#858279", "#878478"),
    "scale-6": ("#6d6f72", "#9d9576"),
    "scale-7": ("#555b6d", "#b6a96f"),
    "scale-8": ("#3a486c", "#cebc63"),
    "scale-9": ("#0f3570", "#e7d150"),
    "scale-10": ("#00224e", "#fee838"),
}
#: Colors of text, colors of drawings, and colors of the grounds of both.
WRITTEN = ("text", "muted", "link", "bad", "good", "doubt")
DRAWN = ("text", "edge", "bad", "series-1", "series-2", "series-3", "series-4")
GROUNDS = ("ground", "raised")
#: Colors of values, from the smallest to the largest.
SCALE = tuple(name for name in COLORS if name.startswith("scale-"))
#: Color, marker and line style of each series of a plot.
SERIES = (
    ("text", "o", "-"),
    ("series-1", "s", "--"),
    ("series-2", "^", "-."),
    ("series-3", "D", ":"),
    ("series-4", "v", (0, (6, 1))),
)
#: Variants in the order of their styles; other names follow.
VARIANTS = ("bare", "integrated", "generic")


def light(name: str) -> str:
    """Return a color in its light form, in which plots are drawn."""
    return COLORS[name][0]


def variables(dark: bool = False) -> str:
    """Return the colors as CSS variables."""
    return " ".join(f"--{name}: {values[dark]};" for name, values in COLORS.items())


def contrast(color: str, other: str) -> float:
    """Return the ratio of two colors' luminances, as WCAG 2.1 defines it: from 1 to 21."""
    brighter, darker = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
