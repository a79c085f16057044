"""Make matplotlib's SVG part of a page: with a title and description, the page's colors, and identifiers of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from markupsafe import Markup

from containercheck.report.page.palette import COLORS, light

SVG = "http://www.w3.org/2000/svg"
GROUP, DEFINITIONS = f"{{{SVG}}}g", f"{{{SVG}}}defs"
HREF = "{http://www.w3.org/1999/xlink}href"
#: The page has a font of its own.
FONT = re.compile(r"font: (?:[\w-]+ )*?([\d.]+px) [^;]+|font-family: [^;]+;? ?")
#: Digits beyond a hundredth of a pixel, which are cut.
DIGITS = re.compile(r"(\.\d\d)\d+")
NUMBERS = ("d", "x", "y", "transform", "points")
NAMES = {light(name): f"var(--{name})" for name in COLORS}
COLOR = re.compile("|".join(NAMES))


def part_of_page(drawing: str, name: str, title: str, description: str) -> Markup:
    """Return a drawing as an element of an HTML page.

    :param drawing: text of an SVG file, drawn in the colors that :func:`palette.light` returns.
    :param name: identifies it on the page.
    :param title: title, for readers who cannot see it.
    :param description: description, for the same readers.
    """
    root = ElementTree.fromstring(drawing)
    _remove(root, f"{{{SVG}}}metadata", f"{{{SVG}}}style")
    used = {target for element in root.iter() for target in _targets(element)}
    for element in root.iter():
        _rename(element, name, used)
        _recolor(element)
    _flatten(root)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib.update({"role": "img", "aria-labelledby": f"{name}-title {name}-description"})
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{SVG}}}{tag}", id=f"{name}-{'title' if tag == 'title' else 'description'}")
        element.text = text
        root.insert(place, element)
    ElementTree.register_namespace("", SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _remove(root: ElementTree.Element, *tags: str) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in tags:
                parent.remove(child)


def _flatten(element: ElementTree.Element) -> None:
    """Remove what draws nothing, so that a browser loads faster: groups without attributes, backgrounds, blanks."""
    if element.tag == f"{{{SVG}}}text":
        return
    element.text = None
    children: list[ElementTree.Element] = []
    for child in element:
        _flatten(child)
        child.tail = None
        if child.tag in (GROUP, DEFINITIONS) and not child.attrib and (child.tag == GROUP or not len(child)):
            children += child
        elif child.get("style") != "fill: none":
            children.append(child)
    element[:] = children


def _targets(element: ElementTree.Element) -> Iterator[str]:
    if HREF in element.attrib:
        yield element.attrib[HREF].lstrip("#")
    for value in element.attrib.values():
        yield from re.findall(r"url\(#([^)]+)\)", value)


def _rename(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Prefix an element's identifier and references with the drawing's name; remove unused identifiers."""
    identity = element.attrib.pop("id", None)
    if identity in used:
        element.set("id", f"{name}-{identity}")
    if HREF in element.attrib:
        element.set("href", f"#{name}-{element.attrib.pop(HREF).lstrip('#')}")
    for key, value in element.attrib.items():
        if "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{name}-"))


def _recolor(element: ElementTree.Element) -> None:
    for key in ("style", "fill", "stroke"):
        if key in element.attrib:
            value = FONT.sub(lambda match: f"font-size: {match[1]}" if match[1] else "", element.attrib[key])
            element.set(key, COLOR.sub(lambda match: NAMES[match[0]], value))
    for key in NUMBERS:
        if key in element.attrib:
            element.set(key, DIGITS.sub(r"\1", element.attrib[key]).replace(" \n", " ").strip())
