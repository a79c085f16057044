"""containercheck list: what it prints of each check, and why it lists nothing."""

from __future__ import annotations

import pytest
from conftest import run_command


def test_list_prints_variants_nodes_tags_and_maintainers_of_each_check():
    listed = run_command("list", "-n", "^(StartUp|IOzone)")
    assert [" ".join(line.split()) for line in listed.stdout.splitlines()] == [
        "check description variants nodes tags maintainers",
        "IOzone IOzone bare, generic 1 io the containercheck developers",
        "StartUp container start-up and tear-down, memory bare, integrated, generic 1 smoke "
        "the containercheck developers",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-n", "Nothing"], 2, "list: error: no check is selected\n"),
        (["--bad"], 64, "list: error: unrecognized arguments: --bad: see --help and reframe --help\n"),
        (["-C", "/none.py"], 2, "list: error: failed to load configuration: "),
    ],
)
def test_list_prints_why_it_lists_nothing(arguments, status, message):
    listed = run_command("list", *arguments)
    assert listed.returncode == status
    assert message in listed.stderr
