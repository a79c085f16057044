"""Doctor's answers on cases: those whose runtime the nodes lack will not run, and what was not asked is not known."""

from __future__ import annotations

import made
from containercheck.command import doctor
from containercheck.command.doctor import Outlook
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.site.hosts import PartitionNodes
from made import case

APPTAINER = RUNTIMES[0].name


def answer(*there, platforms=(APPTAINER,)):
    facts = {"host": {"name": "node1"}, "runtimes": [{"name": name} for name in there]}
    return PartitionNodes("cluster:compute", False, facts, platforms=platforms)


def cases():
    return made.cases([case(variant="bare"), case(variant="generic")])


def test_where_a_runtime_is_there_and_where_nothing_is_known_cases_stand_as_reframe_found_them():
    both = answer("Docker", platforms=(APPTAINER, "Docker"))
    for present in (answer(APPTAINER), both, answer(platforms=())):
        assert Outlook.of([present], cases()).compares
    assert len(Outlook.of([PartitionNodes("cluster:compute", False, problem="no job")], cases()).unknown) == 2


def on(partition, variant="generic", **facts):
    return case(variant=variant, partition=partition, system="cluster", **facts)


def of_nodes(partition, **facts):
    return PartitionNodes(f"cluster:{partition}", False, {"host": {"name": f"{partition}1"}, "runtimes": []}, **facts)


def printed(answers, raw):
    outlook = Outlook.of(answers, made.cases(raw))
    return doctor.lines(answers) + doctor.of_cases(answers, outlook)


def test_of_nodes_that_could_not_be_asked_nothing_will_run(monkeypatch):
    unasked = PartitionNodes("cluster:gpu", False, problem="no such file: sbatch")
    raw = [
        on("compute", "bare"),
        on("gpu", "bare"),
        on("gpu"),
        on("gpu", nodes=2, result="skip", skip_reason="no image"),
    ]
    monkeypatch.setattr(doctor.machine, "topics", lambda facts: [("node", "")])
    monkeypatch.setattr(doctor.machine, "problems", lambda facts: [])
    lines = printed([of_nodes("compute"), unasked], raw)
    first = lines.index("1 of 4 cases will run: Code")
    assert lines[first + 1] == "2 not known: the nodes of 1 partition could not be asked, see above"
    assert lines[-1] == "not known whether a container can be compared with bare metal here"


def test_where_no_node_could_be_asked_the_cases_are_not_known_and_nothing_else():
    """That none of them will run is not known either."""
    lines = printed(
        [PartitionNodes("cluster:gpu", False, problem="no such file: sbatch")], [on("gpu", "bare"), on("gpu")]
    )
    assert not any("will run" in line for line in lines)
    assert lines[-2] == "2 not known: the nodes of 1 partition could not be asked, see above"


def test_what_several_partitions_lack_is_one_line(monkeypatch):
    monkeypatch.setattr(doctor.machine, "topics", lambda facts: [("node", "")])
    monkeypatch.setattr(doctor.machine, "problems", lambda facts: [])
    names = ("thin", "fat", "gpu")
    lacking = [on(name, "bare", result="skip", skip_reason=f"name it in cluster:{name}") for name in names]
    answers = [of_nodes(name, platforms=(APPTAINER,)) for name in names]
    lines = printed(answers, [*lacking, *(on(name, nodes=2) for name in names)])
    start = lines.index("will not run, with the reason:")
    assert [line.strip() for line in lines[start + 1 : -1]] == [
        "Code (3 case(s) on 3 partitions): name it in PARTITION",
        f"Code (3 case(s) on 3 partitions): the site's file names {APPTAINER} in container_platforms, and PARTITION "
        "has no container runtime: name its module there, or another runtime",
    ]
