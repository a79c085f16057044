"""containercheck explain: what is known of a case that failed."""

from __future__ import annotations

from types import SimpleNamespace

import made
import pytest
from containercheck.command import explain, main, report
from containercheck.job.explain.observations import Observation, Use
from containercheck.results import sides_seen
from containercheck.results.cases import ReportError, save
from containercheck.session.reframe_process import Workplace

CAUSE = made.cause()
METRIC = {"helps": "fail", "rest": "pass", "overhead": 0.4, "interval": [-0.9, 1.8], "without": 34.0, "unit": "%"}


FAILED = {"result": "fail", "fail_phase": "performance", "fail_reason": "performance error: rate is 34 % worse"}
RAW = made.case("HPCC", system="here", partition="only", provenance={}, **FAILED)


def cases(**facts):
    return made.cases([{**RAW, **facts}])


def test_a_case_is_explained_with_what_was_tried():
    result = {"name": "remedy1", "failed": "", "took_effect": True, "metrics": {"rate": METRIC}}
    tried = {**CAUSE, "result": result}
    lines = explain.explained(cases(causes=[tried, made.cause("Y=1 is set")]), "hpcc")
    assert lines[:2] == ["FAIL  HPCC generic", "  performance error: rate is 34 % worse"]
    remedy = ["    can slow: computing", "    do: unset it (a#1)"]
    proof = "    tried: X removed: proven, the overhead of rate is +0.4 (-0.9 to +1.8) %, and +34 % without"
    assert lines[2:] == ["  X=1 is set", *remedy, proof, "  Y=1 is set", *remedy, "    not tried: X removed"]


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({"results": [made.opened("noisy")]}, "open  HPCC generic  rate                 +1 ± 2 %"),
        ({"results": [made.opened("slower")]}, "slow? HPCC generic  rate"),
        ({"results": [made.row()]}, "pass  HPCC generic  rate                 +1 ± 2 %"),
        ({"variant": "bare", "results": [made.alone("rate", 52.5)]}, "ran   HPCC bare  rate                 52.5 ns"),
        ({"result": "skip", "skip_reason": "no image"}, "not run: HPCC generic, 1 node(s): no image"),
    ],
)
def test_a_case_begins_with_the_state_that_the_session_printed(facts, first):
    lines = explain.explained(cases(**{"result": "pass", "fail_reason": None, **facts}), "HPCC")
    assert lines[0].startswith(first)
    assert lines[1:] == ([] if "result" in facts else ["  nothing failed, and so no cause was looked for"])


def test_a_case_without_a_cause_gets_no_story():
    assert explain.explained(cases(), "HPCC")[2:] == ["  nothing that is known to cost time differs"]
    with pytest.raises(ReportError, match="no case has 'GROMACS'"):
        explain.explained(cases(), "GROMACS")


def test_observations_are_kept_without_the_parts_of_one_job():
    environment = {"UCX_TLS": "tcp", "OMPI_MCA_orte_rank": "1", "SLURM_JOB_ID": "7", "PWD": "/stage"}
    environment |= {"MY_LIBRARY": "hidden:1", "MY_TOKEN": "hidden:2"}
    seen = Observation(
        environment=environment,
        # A variable that may be a secret has no fingerprint.
        fingerprints={"MY_LIBRARY": "0123abcd", "MY_TOKEN": "", "UCX_TLS": "f"},
        limits={"Max locked memory": "65536", "Max nice priority": "0"},
        space={"/dev/shm": [8 << 20, 12345]},
        mounts={"/": ["overlay", "overlay", "rw"]},
        user="uid=0(root) gid=0(root)",
        cgroup=[
            *(f"{name}:/slurm/uid_0/job_12/step_0" for name in ("4:memory", "3:cpu")),
            "0::/docker/0123456789abcdef",
        ],
    )
    kept = sides_seen.kept(seen)
    assert kept == {
        "variable": {"UCX_TLS": "tcp"},
        "other variable": {"MY_LIBRARY": "0123abcd", "MY_TOKEN": "set"},
        "limit": {"Max locked memory": "65536"},
        "file system": {"/": "overlay", "/tmp": "overlay", "/dev/shm": "overlay"},
        "shared memory": "8 MiB",
        "user": "uid=0(root) gid=0(root)",
        "cgroup": ["/docker/#", "/slurm/uid_#/job_#/step_#"],
    }


def test_the_use_of_runs_is_kept():
    blas = "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas-r0.3.21.so"
    use = Use(12.3, libraries=frozenset([blas]), interfaces=frozenset(["fab0"]), threads=4, throttled=[1, 100, 0.5])
    kept = sides_seen.used(use._replace(memory_limit=float(2 << 30)))
    assert kept == {
        "library": {"libopenblas": "x86_64-linux-gnu/openblas-serial/libopenblas-r0.3.21.so"},
        "interfaces": ["fab0"],
        "threads": 4,
        "limit": {"processors": "0.5", "memory": "2 GiB"},
    }
    assert sides_seen.used(Use()) == {}


def test_a_case_of_the_last_night_is_explained(tmp_path, monkeypatch, capsys):
    place = Workplace(tmp_path, report_file=tmp_path / "report.json")
    monkeypatch.setattr(report.reframe_process, "configuration", lambda *_: SimpleNamespace(report=place.report))
    assert main.run("explain", ["HPCC", "--night"], place) == 2
    assert "no night ended here yet, which writes " in capsys.readouterr().err
    (tmp_path / "nightly").mkdir()
    save(tmp_path / "nightly" / "run-report.json", {"runs": [{"testcases": [{**RAW, "causes": [CAUSE]}]}]})
    assert main.run("explain", ["HPCC", "--night"], place) == 0
    assert "  X=1 is set" in capsys.readouterr().out.splitlines()
    assert main.run("explain", ["GROMACS", "--night"], place) == 2
    assert "no case has 'GROMACS' in its name" in capsys.readouterr().err


def test_a_report_that_is_not_there_yet_is_named(tmp_path, monkeypatch):
    place = Workplace(tmp_path, report_file=tmp_path / "report.json")
    monkeypatch.setattr(report.reframe_process, "configuration", lambda *_: SimpleNamespace(report=place.report))
    with pytest.raises(ReportError, match="no session ended here yet, which writes /"):
        report.last_report(place)
