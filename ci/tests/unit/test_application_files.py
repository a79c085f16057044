"""Application files and recipes as text: each check names its facts, and of each it is known where it runs."""

from __future__ import annotations

import ast
import re

import containercheck
import pytest
from application_files import all_checks, checks_of_plain_runs
from conftest import REPOSITORY
from emulated import ELSEWHERE, FULL_ONLY, LACKING

FILES = sorted((REPOSITORY / "checks").glob("*.py"))


def lacking(text: str) -> list[str]:
    """Return the facts that the classes of checks in a file do not name themselves."""
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.decorator_list]
    found = []
    for each in classes:
        named = {target.id for part in each.body if isinstance(part, ast.Assign) for target in part.targets}
        # A smoke test has answers only.
        wanted = ["variant", "num_nodes", *([] if "smoke_test" in named else ["metrics"])]
        found += [f"{each.name}.{name}" for name in wanted if name not in named]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_check_names_its_variants_node_counts_and_metrics(path):
    assert lacking(path.read_text()) == []


def test_a_type_checker_knows_each_name_that_is_imported_lazily():
    stub = (REPOSITORY / "checks" / "containercheck" / "__init__.pyi").read_text()
    names = ["".join(groups) for groups in re.findall(r"(?m)as (\w+)$|^(\w+) = ", stub)]
    assert sorted(names) == containercheck.__all__


def test_of_every_check_it_is_said_whether_it_runs_on_other_architectures():
    assert all_checks() == {*ELSEWHERE, *FULL_ONLY, *LACKING}
    assert FULL_ONLY.isdisjoint(checks_of_plain_runs()) and len(checks_of_plain_runs()) > 20


# Recipes: what people expect of an image that they did not build


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
