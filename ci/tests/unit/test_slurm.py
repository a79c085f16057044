"""What Slurm says of a job that has ended, and of the nodes for one, from what scontrol and sinfo print."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from containercheck.site import slurm
from slurm_programs import sinfo  # noqa: F401


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Have scontrol print these states of a job on two nodes, one after the other, and then the last."""

    def prepare(*states):
        lines = "\n".join(f"JobId=7 JobState={state} Reason=None NodeList=node[1-2]" for state in states)
        (tmp_path / "states").write_text(lines + "\n")
        script = f'#!/bin/sh\ncd {tmp_path}\nhead -n 1 states\n[ "$(wc -l <states)" = 1 ] || sed -i 1d states\n'
        (tmp_path / "scontrol").write_text(script)
        (tmp_path / "scontrol").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(slurm, "_INTERVAL", 0)

    return prepare


def job(scheduler="squeue", access=(), options=(), cli_options=()):
    facts = {"jobid": "7", "sched_access": access, "options": options, "cli_options": cli_options}
    return SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler), **facts)


SINFO = """\
compute*|up|node1|mixed|none
compute*|up|node2|down*|Not responding
dead|up|node2|down*|Not responding
dead|up|node3|drained|disk | fan
dead|up|node4|draining|
dead|up|node5|down$|none
shut|inact|node1|mixed|none
calm|up|node6|idle~|none
calm|up|node7|drained@|reboot ASAP
calm|up|node8|reserved|none
calm|up|node9|maint|none

"""


@pytest.mark.parametrize(
    ("states", "told", "lost"),
    [
        (["COMPLETING", "NODE_FAIL"], "", "Slurm says NODE_FAIL"),
        (["NODE_FAIL"], "", "Slurm says NODE_FAIL"),
        (["COMPLETING", "COMPLETED"], "compute*|up|node1|idle|none\ncompute*|up|node2|drained|planted\n", ""),
        # Its runs failed, and it was over, before Slurm had given the node up; a node is told once for each partition.
        (
            ["COMPLETING", "FAILED"],
            "compute*|up|node1|idle|none\ncompute*|up|node2|down*|Not responding\ndead|up|node2|down*|Not responding\n",
            "Slurm says node2 down (Not responding)",
        ),
    ],
)
def test_a_job_that_lost_a_node_is_known_once_slurm_has_settled_it(says, sinfo, states, told, lost):
    says(*states)
    sinfo(told, "--nodes=node[1-2]")
    assert slurm.lost_node(job()) == lost


def test_a_job_that_slurm_never_had_lost_no_node(says):
    says("NODE_FAIL")
    assert not slurm.lost_node(job("local"))


def test_a_job_that_never_settles_is_not_waited_for_for_ever(says, monkeypatch):
    says("COMPLETING")
    monkeypatch.setattr(slurm, "PATIENCE", 0.2)
    assert not slurm.lost_node(job())


@pytest.mark.parametrize(
    ("facts", "nodes", "said"),
    [
        ({}, 1, ""),
        ({}, 2, "needs 2 node(s), and Slurm's partition compute has 1 of 2 in service: node2 down (Not responding)"),
        # More than there are: Slurm itself says so.
        ({}, 3, ""),
        (
            {"access": ["--partition=dead", "--account=bench"]},
            1,
            "needs 1 node(s), and Slurm's partition dead has 0 of 4 in service: node2 down (Not responding), "
            "node3 drained (disk | fan), node4 draining, and 1 more",
        ),
        (
            {"access": ["-p shut"]},
            1,
            "needs 1 node(s), and Slurm's partition shut has 0 of 1 in service: partition shut is inact",
        ),
        # What comes later counts.
        ({"access": ["-p dead"], "options": ["--exclusive"], "cli_options": ["-pcompute"]}, 1, ""),
        ({"access": ["--partition=dead,compute"]}, 1, ""),
        # What comes back by itself is waited for.
        ({"access": ["--partition", "calm"]}, 4, ""),
        ({"access": ["-p nowhere"]}, 1, ""),
        ({"access": ["-p dead", "-M other"]}, 1, ""),
        ({"scheduler": "sge", "access": ["-p dead"]}, 1, ""),
    ],
)
def test_nodes_that_a_person_must_see_to_are_named_with_their_states(sinfo, facts, nodes, said):
    sinfo(SINFO)
    assert slurm.out_of_service(job(**facts), nodes) == said


@pytest.mark.parametrize("text", ["", "sinfo: error: the controller does not answer\n"])
def test_what_slurm_does_not_tell_is_no_reason_to_fail(sinfo, text):
    sinfo(text)
    assert slurm.out_of_service(job(), 1) == ""


def test_without_sinfo_nothing_is_said_of_nodes(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.out_of_service(job("slurm"), 1) == ""
