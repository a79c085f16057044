"""What two containers of a node see of each other: read from what the second prints, and really of two shells."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from isolation import EXPECTED, OWN, SHARED

PATH = REPOSITORY / "checks" / "src" / "isolation" / "isolation.py"
SPEC = importlib.util.spec_from_file_location("isolation_program", PATH)
program = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(program)


def told(*command):
    done = subprocess.run([sys.executable, PATH, "--", *command], capture_output=True, text=True, timeout=100)
    return dict(line.split(" ")[1:] for line in done.stdout.splitlines()), done.stderr


def test_two_shells_of_the_host_see_all_of_each_other_and_leave_nothing():
    answers, errors = told("sh")
    assert errors == ""
    assert answers == {**SHARED, "user": "same", "more_capabilities": "0", "namespaces": "none"}
    assert [name for place in ("/tmp", "/dev/shm") for name in os.listdir(place) if "containercheck_" in name] == []


def test_what_does_not_start_is_an_error():
    answers, errors = told("false")
    assert answers == {} and errors.startswith("isolation.py: error: the first container did not start: exit status 1")


def printed(**facts):
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in program.NAMESPACES}
    facts = {"dev_shm": "yes", "tmp": "yes", "processes": "yes", "uid": os.geteuid(), "effective": "0", **facts}
    with open("/proc/self/cgroup") as cgroup:
        lines = [f"cgroup {line}" for line in cgroup.read().splitlines()]
    lines += [f"namespace {name} {facts.pop(f'ns_{name}', identity)}" for name, identity in own.items()]
    return [*lines, *(f"{name} {value}" for name, value in facts.items())]


@pytest.mark.parametrize(
    ("facts", "name", "answer"),
    [
        ({"uid": os.geteuid() + 1}, "user", "other"),
        ({"dev_shm": "no"}, "dev_shm", "no"),
        ({"ns_pid": "pid:[1]"}, "namespaces", "pid"),
    ],
)
def test_each_difference_is_seen(facts, name, answer):
    assert program.answers(printed(**facts))[name] == answer


def test_capabilities_count_where_they_are_power_over_the_node(monkeypatch):
    monkeypatch.setattr(program, "own_capabilities", lambda: 0b001)
    assert program.answers(printed(effective="7"))["more_capabilities"] == "2"
    assert program.answers(printed(effective="7", ns_user="user:[1]"))["more_capabilities"] == "0"


def test_runtimes_that_share_and_that_separate_are_told_apart():
    assert EXPECTED["Apptainer"] is SHARED and EXPECTED["Docker"] is OWN
    assert all(SHARED[name] != OWN[name] for name in SHARED)
