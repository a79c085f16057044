"""The output of the program that starts containers."""

import importlib.util
import itertools
from pathlib import Path

import pytest
from conftest import REPOSITORY, facts_of
from containercheck.application import references
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.results import earlier_sessions
from saved import metrics, problems
from startup import StartUp

#: The program has the name of the check's file, which is loaded already.
PATH = REPOSITORY / "checks" / "src" / "startup" / "startup.py"
SPECIFICATION = importlib.util.spec_from_file_location("startup_program", PATH)
program = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(program)


def test_one_copy_and_several_are_told_apart():
    found = metrics(StartUp, "startup/passing", ranks=1)
    assert found == {
        "start": 0.004339,
        "end": 0.000394,
        "memory": 0.905,
        "start_several": 0.009425,
        "end_several": 0.000927,
        "memory_several": 0.732,
    }


def test_a_command_that_does_not_answer_is_no_result():
    """The program then says why on its standard error, and nothing else."""
    assert any("metric start not found" in problem for problem in problems(StartUp, "startup/failing", ranks=1))


@pytest.mark.parametrize(
    ("later", "rounds", "starts", "others"),
    [(0.3, 2, "fail", None), (0.3, 4, "fail", None), (0.0, 6, "pass", "pass")],
)
def test_a_few_rounds_decide_whether_a_successor_starts_later(later, rounds, starts, others):
    """Four rounds, as a confirming run had, left 0.3 s undecided: the spread was stated as a tenth of a second."""
    facts = {"name": "new", "label": "new", "compared_with": "old"}
    sides = [{**facts, "accepted": references.margins(StartUp.metrics, 5.0)}]
    sides[:0] = [{**facts, "name": name, "label": name, "compared_with": None} for name in ("baseline", "old")]
    scatter = {"start": 0.012, "end": 0.003, "memory": 0.16}
    earlier = []
    for _, sign in zip(range(rounds), itertools.cycle((1, -1))):
        kinds = {metric.name: metric.name.partition("_")[0] for metric in StartUp.metrics}
        new = {name: 1 + later * (kind == "start") + sign * scatter[kind] for name, kind in kinds.items()}
        earlier.append({"baseline": dict.fromkeys(kinds, 0.01), "old": dict.fromkeys(kinds, 1.0), "new": new})
    priors = earlier_sessions.metric_priors(StartUp.metrics, {})
    judged = Evaluation(Facts(facts_of(StartUp.metrics, sides=sides, earlier=earlier, priors=priors)), Path())
    verdicts = {name: pairs.verdict for (_, name), pairs in judged.pairs.items()}
    assert {verdicts.pop(name) for name in ("start", "start_several")} == {starts}
    assert others is None or {*verdicts.values()} == {others}


def status(name, whole, of_files, shared=0):
    return {"Name": name, "VmRSS": f"{whole} kB", "RssFile": f"{of_files} kB", "RssShmem": f"{shared} kB"}


def test_pages_of_files_count_once_for_all_processes_of_a_program():
    """Two containers of the same runtime: its program is in memory once."""
    runtimes = [status("podman", 40000, 30000, 100), status("podman", 42000, 30000, 100)]
    assert program.estimated_set_sizes([*runtimes, status("cat", 1800, 1500)]) == 9900 + 11900 + 30100 + 1800
    assert program.estimated_set_sizes([]) == 0


def test_processes_without_memory_hold_none_and_old_kernels_tell_one_size_only():
    ended = {"Name": "podman", "State": "Z (zombie)"}
    assert program.estimated_set_sizes([ended, {"Name": "sudo", "VmRSS": "5000 kB"}]) == 5000
