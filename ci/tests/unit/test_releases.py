"""Which Debian an image is of: one table, and what the partition's hosts say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import entry_of
from containercheck.job.container_runtimes import by_name
from containercheck.site import hosts, jobs
from containercheck.site.sites import Site
from containercheck.software import images
from containercheck.software.provision import Wanted
from reframe.core.exceptions import ReframeError

HERE = Site("generic:default", is_here=True, architecture="x86_64", cores=4, gpus=0)
REMOTE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
WANTED = Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name("Apptainer"))


@pytest.fixture(autouse=True)
def runtime(monkeypatch):
    """Let the runtime be on the PATH: nothing is built here."""
    monkeypatch.setattr(images.shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def nodes_say(monkeypatch):
    """Let the nodes of any partition give this answer, and this machine another."""

    def say(text="", error=None, here="glibc 2.99"):
        answer = hosts.HostAnswer({} if error else {"host": {"libc": text}}, error)
        monkeypatch.setattr(hosts, "ask", lambda partition: answer)
        monkeypatch.setattr(os, "confstr", lambda name: here)

    return say


def test_a_node_that_does_not_answer_is_an_error_and_is_asked_once(monkeypatch):
    left = [hosts.HostAnswer(error=hosts.UnknownError("its job failed"))]
    monkeypatch.setattr(hosts, "ask_all", lambda names: {names[0]: left.pop(0)})
    hosts.ask.cache_clear()
    for _ in range(2):
        # Not Unavailable, which is a skip.
        with pytest.raises(ReframeError, match="^no image: the C library of cluster:compute is not known "):
            images.provide_image(WANTED, REMOTE)
    hosts.ask.cache_clear()


@pytest.mark.parametrize(
    ("site", "wanted", "on_nodes", "here", "release"),
    [
        # RHEL 8 and Debian 12; Ubuntu 24.04 and RHEL 10, and newer than all.
        (REMOTE, WANTED, "glibc 2.28", "glibc 2.41", "bookworm"),
        (REMOTE, WANTED, "glibc 2.36", "glibc 2.41", "bookworm"),
        (REMOTE, WANTED, "glibc 2.42", "glibc 2.36", "trixie"),
        (REMOTE, WANTED, "glibc 2.39", "glibc 2.36", "trixie"),
        # Where jobs run here, this machine answers.
        (HERE, WANTED, "glibc 2.41", "glibc 2.36", "bookworm"),
        # The site and the person choose another one.
        (replace(REMOTE, release="trixie"), WANTED, "", "", "trixie"),
        (replace(REMOTE, release="trixie"), replace(WANTED, release="bookworm"), "", "", "bookworm"),
    ],
)
def test_the_release_is_chosen_or_that_of_the_hosts_of_the_jobs(nodes_say, site, wanted, on_nodes, here, release):
    nodes_say(on_nodes, here=here)
    (command,) = images.provide_image(wanted, site).build
    assert entry_of(command)["release"] == release


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (hosts.UnknownError("no sbatch"), r"not known \(no sbatch\): name the images' release"),
        (hosts.UnseenError(jobs.unseen(Path("/s"))), "^no image: the nodes do not see /s: set the stage directory to"),
        (None, r"\(its C library is not GNU\).* in the site's extras, release"),
    ],
)
def test_nodes_that_do_not_answer_are_an_error_with_the_reason(nodes_say, error, said):
    nodes_say(error=error)
    # An unknown fact does not skip a case.
    with pytest.raises(ReframeError, match=said):
        images.provide_image(WANTED, REMOTE)
