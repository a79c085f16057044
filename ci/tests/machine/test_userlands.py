"""Userlands of other architectures that the package mirror does not have: said so, and then done without."""

from __future__ import annotations

import os
import subprocess

import pytest
from conftest import REPOSITORY

SCRIPT = REPOSITORY / "ci" / "virtual_cluster" / "userlands.sh"


@pytest.mark.parametrize(
    ("line", "mirrors"),
    [
        ("E: Couldn't download http://mirror/debian/dists/trixie/main/binary-ppc64el/Packages", True),
        ("E: Invalid Release file, no entry for main/binary-ppc64el/Packages", True),
        ("E: Couldn't download packages: libc6_2.41-12_ppc64el.deb", False),
        ("E: Unable to locate package hpcc", False),
    ],
)
def test_what_the_mirror_lacks_is_told_from_other_trouble(tmp_path, line, mirrors):
    (tmp_path / "log").write_text(f"I: Validating Packages\n{line}\n")
    words = ["bash", "-ec", '. "$1"; why_not "$2"', "-", SCRIPT, tmp_path / "log"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == ("the package mirror has it not, or not whole: " if mirrors else "") + line + "\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a root directory is changed as root")
def test_programs_that_debian_lacks_there_are_said_and_done_without():
    script = '. "$1"; . "$2"; shift 2; offered_in / "$@"'
    words = ["bash", "-ec", script, "-", REPOSITORY / "ci" / "lib.sh", SCRIPT, "dpkg", "no-such-program", "apt"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "dpkg\napt\n"
    assert done.stderr == "no package no-such-program here: checks that need it are skipped\n"
