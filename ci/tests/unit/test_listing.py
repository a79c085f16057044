"""A listing is quick: generating a case costs no walk of the stack."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import REPOSITORY

#: Lists checks, and says last how often ReFrame walked the stack.
LIST = """
import inspect, sys
from reframe.frontend import cli
walks, walk = [], inspect.stack
inspect.stack = lambda *context: walks.append(1) or walk(*context)
try:
    cli.main()
finally:
    print(len(walks), "walks")
"""
CHECK = """
import reframe as rfm
from containercheck import ContainerCheck
from reframe.core.builtins import parameter, run_after


@rfm.simple_test
class Named(ContainerCheck):
    variant = parameter(["bare"])
    num_nodes = parameter([1])
    place = parameter(range(20))
    recipe = "startup"
    smoke_test = True

    @run_after("init")
    def name_variables(self):
        self.env_vars["PLACE"] = str(self.place)
        print(self.env_vars)
"""


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ([], "{'PLACE': '19'}"),
        # Where the command line sets variables, ReFrame's walk is paid for, and they are there.
        (["-S", "env_vars=A:2"], "{'A': '2', 'PLACE': '19'}"),
    ],
)
def test_a_case_has_its_variables_and_costs_no_walk_of_the_stack(tmp_path, options, variables):
    file = tmp_path / "named.py"
    file.write_text(CHECK)
    arguments = ["-c", file, "-l", *options]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY / "checks")}
    words = [sys.executable, "-c", LIST, *map(str, arguments)]
    result = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert variables in result.stdout, result.stdout + result.stderr
    walks = int(result.stdout.splitlines()[-1].split()[0])
    # Each class costs some.
    assert walks < 6 or options, result.stdout
