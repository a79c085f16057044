"""The recipes of images: what people expect of an image that they did not build."""

from __future__ import annotations

import re

import pytest
from conftest import REPOSITORY

RECIPES = sorted((REPOSITORY / "images").glob("*.def"))


def sections(text):
    """Return the sections of a definition file, by name."""
    parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_an_image_says_what_it_is_runs_its_program_and_can_be_tested(path):
    found = sections(path.read_text())
    title = re.search(r"^ +org[.]opencontainers[.]image[.]title (.+)$", found["labels"], re.MULTILINE)[1]
    program = re.fullmatch(r'\s+exec (.+) "\$@"\s+', found["runscript"])[1]
    assert found["help"].splitlines()[0] == f"    {title}."
    assert program in found["help"] or "{{ PROGRAM }}" in program
    # Without the program, ldd of nothing would find nothing missing.
    assert found["test"].startswith(f"    command -v {program}")
