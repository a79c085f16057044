"""Sessions with the site files of other machines: everything is written, nothing is run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest
from application_files import checks_of_plain_runs
from conftest import REPOSITORY, file_of
from site_files import FILES, anywhere, sites_of, system_of, with_paths  # noqa: F401

#: Why a case of a plain run may be skipped in a dry run, where all is as the site file says it.
TRUE_REASONS = ("its input has work for ", "needs 2 ranks: ", "no image: docker cannot build ")


#: The same of programs that only a site can provide.
LICENSED_REASON = re.compile(r"no software: \w+ cannot be downloaded: ")

#: And where pinned requirements have no files for its architecture: by architecture, those checks.
PINNED_REASON = re.compile(r"no software: \w+ is pinned for [\w, ]+, and the partition is \w+: ")


def is_true(reason):
    """Tell whether a case was written, or skipped for a reason that may hold in a dry run."""
    patterned = LICENSED_REASON.match(reason) or PINNED_REASON.match(reason)
    return bool(patterned) or reason.startswith(("pass", *TRUE_REASONS))


WITHOUT_FILES = {"aarch64": {"IMB"}, "ppc64le": {"IMB", "RAMP", "TensorFlowCNN"}}


def never_written(path, partition, name, _variant):
    """Whether no case of a check is written for a partition: of the others there is one at least."""
    if name in WITHOUT_FILES.get(sites_of(path)[partition][1].architecture, ()):
        return True
    if name in ("Alya", "Amber", "PACE3D"):
        return name not in (sites_of(path)[partition][1].software or {})
    # Of 192 cores a node: the input has work for 128.
    return path.stem == "eessi" and name in ("OpenFOAM", "WordCount")


TOO_MANY_CORES = "its input has work for 384 cores"
#: Applications that a document ran on a machine, the cases of a plain run, and why some of them are skipped.
HEADLINES = {
    "aris": ("GROMACS", 24, {}),
    "cc_in2p3": ("DB12 RAMP StartUp", 21, {}),
    "chpce": ("HPCC IOzone StartUp", 28, {}),
    "cte_power": ("Alya", 15, {}),
    "ec2": ("HPCG IMB", 42, {}),
    "excess": ("OpenFOAM PACE3D Palabos PingPong SemanticSpaces WordCount", 66, {}),
    "kay": ("WRF", 12, {}),
    "lenox": ("Alya BTMZ HPCG", 27, {}),
    "marconi": ("Amber AmberDLB QuantumEspresso QuantumEspressoDLB TensorFlowCNN", 44, {TOO_MANY_CORES: 3}),
    "marenostrum4": ("Alya BTMZCollocation Collocation", 33, {}),
    "mipt": ("HPL", 6, {}),
    "thunderx": ("Alya", 9, {}),
    "volta": ("HPCG IMB", 36, {}),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_what_a_document_ran_on_a_machine_is_not_skipped_there(name, anywhere, session, tmp_path):
    applications, count, skipped = HEADLINES[name]
    path = REPOSITORY / "config" / f"{name}.py"
    arguments = ["--dry-run", "-C", with_paths(path, tmp_path), f"--system={system_of(path)['name']}"]
    arguments += ["-n", f"^({applications.replace(' ', '|')})%"]
    # The other files need not be loaded.
    first, *others = sorted({file_of(application) for application in applications.split()})
    arguments += [word for other in others for word in ("-c", str(other))]
    result = session(*arguments, checks=first, **anywhere)
    reasons = Counter(case["skip_reason"].partition(":")[0] for case in result.cases if case["result"] == "skip")
    assert result.status == 0, result.output
    assert {case["name"].split()[0] for case in result.cases} == {*applications.split()}
    assert (len(result.cases), dict(reasons)) == (count, skipped), result.output


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_check_is_written_for_it(path, anywhere, session, tmp_path):
    arguments = ("--dry-run", "-C", with_paths(path, tmp_path), f"--system={system_of(path)['name']}")
    result = session(*arguments, checks=REPOSITORY / "checks", **anywhere)
    assert result.status == 0, result.output
    reasons = defaultdict(set)
    for case in result.cases:
        reason = case["skip_reason"] or case["result"]
        reasons[case["partition"], case["name"].split()[0], case["variant"]].add(reason)
    assert {name for _, name, _ in reasons} == checks_of_plain_runs()
    assert not {reason for each in reasons.values() for reason in each if not is_true(reason)}
    unwritten = {key for key, all_ in reasons.items() if "pass" not in all_}
    assert unwritten == {key for key in reasons if never_written(path, *key)}
