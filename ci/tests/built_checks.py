"""Checks that build something into a cache, as test_built_in_turn.py wants it, which copies this file.

What is done, and when, is a line of a journal beside the copy's directory.
"""

import os
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_before, sanity_function, variable

#: Where the copy's directory lies.
DIRECTORY = Path(__file__).resolve().parents[1]
#: Notes that something was done, in one write.
NOTE = f"echo '{{}}' >>{DIRECTORY}/journal"


class Base(rfm.RegressionTest):
    """Builds its product unless it is there, and notes what it does."""

    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    build_system = "CustomBuild"
    sourcesdir = None
    executable = "true"
    #: What it builds, and what its build does besides.
    product = variable(str, value="")
    breaks = variable(str, value="true")
    results = variable(list, value=[], loggable=True)
    expected = variable(dict, value={}, loggable=True)

    @run_before("compile")
    def write_build(self):
        """Build as a cache does."""
        there = f"{DIRECTORY}/{self.product}"
        build = f"[ -e {there} ] || {{ {NOTE.format(f'build {self.product}')}; {self.breaks}; touch {there}; }}"
        self.build_system.commands = [f"{build}; echo 0 >build.status"]

    @run_before("run")
    def write_run(self):
        """Note that it is measured, and by which policy."""
        self.prerun_cmds = [NOTE.format(f"run {type(self).__name__}")]

    @sanity_function
    def ran(self):
        """It always does."""
        return True


@rfm.simple_test
class First(Base):
    product = "image"
    variant = parameter(["integrated", "generic"], loggable=True)
    expected = {"expected": 50.0}


@rfm.simple_test
class Second(Base):
    product = "program"
    expected = {"expected": 20.0}


@rfm.simple_test
class Hangs(Base):
    product = "never"
    breaks = f"{NOTE.format('hangs $$')}; exec sleep {4_000_000 + os.getuid()}"
