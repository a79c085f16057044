"""Application files as text: what they ask of the values that a check hands them is there.

They state facts in hooks that only some of their cases run, on some machines: a renamed field is seen here, and not by
whoever runs that case.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import containercheck
import pytest
from application_files import all_checks, checks_of_plain_runs
from conftest import REPOSITORY
from containercheck.application.declare import Work
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from emulated import ELSEWHERE, FULL_ONLY, LACKING

#: Values that a check hands its hooks, by the name of its attribute.
VALUES = {"work": Work, "layout": Layout, "site": Site}
FILES = sorted((REPOSITORY / "checks").glob("*.py"))


def asked(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each ``self.VALUE.NAME`` of a file: value, name and line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            owner = node.value
            if isinstance(owner.value, ast.Name) and owner.value.id == "self" and owner.attr in VALUES:
                yield owner.attr, node.attr, node.lineno


def unknown(text: str) -> list[tuple[str, str, int]]:
    """Return those that the value's class does not have."""
    known = {name: {*dir(kind), *kind.__dataclass_fields__} for name, kind in VALUES.items()}
    return [(value, name, line) for value, name, line in asked(text) if name not in known[value]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_field_that_is_asked_for_is_there(path):
    assert unknown(path.read_text()) == []


def test_a_field_that_is_not_there_is_found():
    assert unknown("mesh = self.amount / self.work.least + self.layout.ranks\n") == [("work", "least", 1)]


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


def test_a_check_that_inherits_its_metrics_is_found():
    assert lacking("@test\nclass A(B):\n    variant = num_nodes = parameter()\n") == ["A.metrics"]


def test_there_are_such_files_and_some_ask():
    assert len(FILES) > 20
    assert sum(1 for path in FILES for _ in asked(path.read_text())) > 10


def test_a_type_checker_knows_each_name_that_is_imported_lazily():
    stub = (REPOSITORY / "checks" / "containercheck" / "__init__.pyi").read_text()
    names = ["".join(groups) for groups in re.findall(r"(?m)as (\w+)$|^(\w+) = ", stub)]
    assert sorted(names) == containercheck.__all__


def test_of_every_check_it_is_said_whether_it_runs_on_other_architectures():
    assert all_checks() == {*ELSEWHERE, *FULL_ONLY, *LACKING}
    assert FULL_ONLY.isdisjoint(checks_of_plain_runs()) and len(checks_of_plain_runs()) > 20
