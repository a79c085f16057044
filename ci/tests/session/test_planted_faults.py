"""Every gate fails when it should: faults planted in real containers, all of them in one session of ReFrame.

What a case is, and what is set for it, stands in ``planted/faults.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import alive_below, run_session, write_site
from containercheck.job import contract, runtime_start, start_ranks

#: In parallel too, one session plants the faults.
pytestmark = pytest.mark.xdist_group("planted faults")


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Run all checks with faults, one after the other: a bare one comes before its containers."""
    checks = "^Fault|^Singletons|^Crowded|^NoModule"
    return run_session(tmp_path_factory.mktemp("faults"), "-n", checks, "--exec-policy=serial")


def record_of_job(case):
    """Return what a case's job recorded."""
    return json.loads(Path(case["stagedir"], "rounds.json").read_text())


def had_no_job(case):
    """Whether a case came to its end before its job."""
    return not Path(case["stagedir"] or "/nowhere", "rfm_job.sh").exists()


def test_all_cases_are_looked_at(faults):
    assert len(faults.cases) == 12 + 2 + 1, faults.output
    assert faults.status != 0
    assert "Traceback" not in faults.output


def test_equal_runs_pass_and_end_by_themselves(faults):
    case = faults.case("generic", "case=equal")
    assert case["result"] == "pass", case["fail_reason"]
    (row,) = case["results"]
    assert (row["verdict"], row["rounds"], row["above"]) == ("pass", 6, 0)
    # 0.5 s against 0.51 or 0.5.
    assert 100 * (0.5 / 0.51 - 1) <= row["overhead"] <= 0
    builds = case["provenance"]["builds"]
    assert builds["baseline"] == builds["subject"] == {"version": "2022.5", "instruction set": "SSE4.1"}
    assert row["difference"] == ""
    record = record_of_job(case)
    assert record["why"] == "every metric has its verdict, or more would not decide"
    assert len(case["measured"]) == len(record["runs"]) / 2 - len(record["replaced"]) == 6
    assert {0.51, 0.5} >= {round_["baseline"]["time"] for round_ in case["measured"]}
    assert {round_["subject"]["time"] for round_ in case["measured"]} == {0.5}
    # The bare one, which compares nothing, ran once.
    assert len(faults.case("bare", "case=equal")["measured"]) == 1


def test_a_number_of_rounds_is_kept_and_a_later_session_goes_on_from_there(faults, session, tmp_path):
    first = faults.case("generic", "case=four-rounds")
    (row,) = first["results"]
    assert (row["verdict"], row["rounds"], row["rounds_needed"]) == ("inconclusive", 4, 6)
    assert "; too few rounds to tell how many more it takes: 4" in faults.output, faults.output
    assert record_of_job(first)["why"] == "as many as were asked for"
    report = faults.stage.parent / "report.json"
    second = session("-n", "Fault%variant=generic%num_nodes=1%case=four-rounds", "-S", f"earlier={report}")
    assert second.status == 0, second.output
    case = second.case("generic")
    (row,) = case["results"]
    assert (row["verdict"], row["rounds"]) == ("pass", 6)
    record = record_of_job(case)
    assert len(record["runs"]) == 2 * (2 + len(record["replaced"]))
    assert case["measured"][:4] == first["measured"]
    assert len(case["measured"]) == 6


def test_a_slow_container_fails_with_metric_and_interval(faults):
    case = faults.case("generic", "case=slow")
    assert (case["result"], case["fail_phase"]) == ("fail", "performance")
    said = r"time is \S+ % (?:± \S+|\(\S+ to \S+) %\)? worse than bare in this session \(tolerance 5 %; above it in "
    said += r"([4-9]) of \1 rounds, confirmed in (\d+) more\)"
    found = re.search(said, case["fail_reason"])
    assert found, case["fail_reason"]
    (row,) = case["results"]
    # 0.6 s against 0.51 or 0.5: its ranks tell after 9 rounds, and after 4 that they agree far better than is assumed.
    assert (row["verdict"], row["confirmation"], row["rounds"]) == ("fail", "confirmed", int(found[1]) + int(found[2]))
    assert 100 * (0.6 / 0.51 - 1) - 1e-6 <= row["overhead"] <= 20 + 1e-6


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # It is fast.
        ("case=wrong", "rounds 1 and 2: answers differ: sum is 43.0, bare 42.0"),
        ("case=crash", "rounds 1 and 2, subject: exit status 3: FATAL: it broke"),
        ("case=hangs", "rounds 1 and 2, subject: hangs: killed at its limit of 4 s"),
        ("case=leaves", "subject leaves processes behind when it ends, which bare does not: sleep"),
        ("case=unreadable", "metric time not found in"),
        ("Crowded", "its ranks share cores: they are bound to 0 | 0, those of baseline to 0 | 1"),
    ],
)
def test_a_fault_fails_by_its_name_and_the_second_of_a_kind_ends_the_rounds(faults, name, said):
    case = faults.case("generic", name)
    assert (case["result"], case["fail_phase"]) == ("fail", "sanity")
    assert said in case["fail_reason"]
    record = record_of_job(case)
    assert record["complete"]
    sides = [run["side"] for run in record["runs"]]
    assert sides.count("subject") == 2 or not said.startswith("rounds 1 and 2")


def test_a_hang_is_killed_and_named_and_the_other_rounds_finish(faults):
    case = faults.case("generic", "case=hangs-once")
    assert "round 2, subject: hangs: killed at its limit of 4 s" in case["fail_reason"]
    record = record_of_job(case)
    assert record["complete"]
    assert [(run["round"], run["side"]) for run in record["runs"] if run["timed_out"]] == [(2, "subject")]
    assert len(record["runs"]) == 2 * (3 + len(record["replaced"]))
    assert not alive_below(faults.stage), "the hanging run's children live on"


def test_settings_of_the_host_do_not_reach_a_generic_container(faults):
    case = faults.case("generic", "case=environment")
    planted = dict(re.findall(r"^export (\w+)=(.*)$", Path(case["stagedir"], "rfm_job.sh").read_text(), re.MULTILINE))
    text = Path(case["stagedir"], "rounds", "01-subject", "out").read_text()
    seen = dict(line.partition("=")[::2] for line in text.splitlines())
    assert seen["SITE_OWN"] == "stays"
    host = {name for name in planted if name.startswith(("OMPI", "OPAL", "PRTE", "PMIX", "UCX", "FI_", "I_MPI", "LD_"))}
    # The library's own setting is for every container.
    host -= set(runtime_start.OURS)
    assert len(host) >= 9 and "PYTHONPATH" in planted
    # The container has one of its own.
    assert seen.pop("LD_LIBRARY_PATH", "") != "/opt/openmpi/lib"
    assert not (host | {"MPICH_ASYNC_PROGRESS", "PYTHONPATH"}) & seen.keys()


def test_a_script_repeats_a_run_after_a_pass_and_after_a_failure(faults, tmp_path):
    """After a pass it lies in the output directory, and after a failure where the job ran."""

    def repeated(case, side):
        done = subprocess.run(["bash", case["reproducer"], side], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    passed, failed = (faults.case("generic", f"case={name}") for name in ("equal", "wrong"))
    assert Path(passed["reproducer"]).is_relative_to(faults.stage.parent / "output")
    assert Path(failed["reproducer"]).parent == Path(failed["stagedir"])
    assert repeated(passed, "baseline") == repeated(passed, "subject") == repeated(failed, "baseline") == "sum 42"
    assert repeated(failed, "subject") == "sum 43"


def test_singletons_instead_of_ranks_fail(faults):
    case = faults.case("generic", "Singletons")
    stage = Path(case["stagedir"])
    if case["result"] == "pass":
        # Where the host's PMIx is of another major version than the image's, a way to start them was found.
        started = json.loads((stage / contract.started_file("subject")).read_text())
        assert started["started"] == start_ranks.INSIDE.label
        assert re.search(r"PMIx (\d+)\..* has PMIx (?!\1\.).*\(singletons\)", started["because"]), started
        return
    said = case["fail_reason"]
    assert "ranks came up, each as a job of its own (singletons)" in said
    assert case["fail_info"]["exc_type"] == "SanityError", "broken, and not only not measured"
    assert record_of_job(case)["runs"] == [], "not before the rounds"


def test_software_that_a_module_should_bring_is_looked_for_in_the_build_step(faults):
    case = faults.case("bare", "NoModule")
    assert case["result"] == "skip", faults.output
    assert case["skip_reason"].startswith(
        f"no software: no-such-program is not on the PATH of {os.uname().nodename}: install no-such-package ("
    )
    assert had_no_job(case)


def test_what_the_job_finds_that_cannot_run_skips_with_the_reason(faults):
    case = faults.case("generic", "case=unsupported")
    assert (case["result"], case["skip_reason"]) == ("skip", "no software: this one is too old")


def failed_before_its_job(case, said):
    assert case["result"] == "fail"
    assert f"misconfigured: no {said}" in case["fail_reason"]
    assert had_no_job(case)
    return True


#: What the partitions of the site file below say, but those that say what they do by more than extras.
EXTRAS = {
    "tolerant": {"tolerances": {"OnSite": {"time": 25}}},
    "no-image": {"images": {"mpi": "/nowhere/openmpi.sif"}},
    "no-path": {"software": {"OnSite": {"executable": "/no/sh"}}},
    "no-input": {"software": {"OnSite": {"input": "/no/input"}}},
    "no-program": {"software": {"OnSite": {"image_executable": "/own/tree/own-sh"}}},
}


@pytest.fixture(scope="module")
def on_site(tmp_path_factory, faults):
    """Run one session on a site of which each partition says something else."""
    directory = tmp_path_factory.mktemp("site")
    ready = directory / "ready.sif"
    shutil.copy(faults.case("generic", "case=equal")["provenance"]["image"], ready)
    (directory / "current.sif").symlink_to(ready)
    places = "".join(
        f"  'here:{name}':\n    bare:\n      1: {{time: [5.0, -0.1, 0.1, s]}}\n" for name in ("referenced", "emulated")
    )
    (directory / "OnSite.yaml").write_text(f"OnSite:\n  $index: [$partition, variant, num_nodes]\n{places}")
    partitions = {name: {"extras": {"containercheck": extras}} for name, extras in EXTRAS.items()}
    partitions["ready"] = {"extras": {"containercheck": {"images": {"mpi": f"{directory}/current.sif"}}}}
    partitions["referenced"] = {"extras": {"containercheck": {"references": str(directory)}}}
    partitions["emulated"] = {"extras": {"containercheck": {"references": str(directory), "emulated": True}}}
    partitions["no-runtime"] = {"container_platforms": [{"type": "Singularity"}]}
    path = write_site(directory / "site.py", partitions)
    return run_session(directory, "-C", path, "-n", "^OnSite", "--exec-policy=serial")


def test_the_site_says_what_it_accepts(on_site):
    case = on_site.case("generic", "case=tolerated")
    assert case["result"] == "pass", on_site.output
    (row,) = case["results"]
    assert (row["verdict"], row["accepted"], row["above"]) == ("pass", [None, 25], 0)


def test_where_processors_are_emulated_an_overhead_is_reported_and_not_judged(on_site):
    """Two rounds do, where nobody asks for more; the same fault fails elsewhere, after nine."""
    found = on_site.case("generic", "case=emulated-slow")
    assert found["result"] == "pass", found["fail_reason"]
    (row,) = found["results"]
    assert (row["verdict"], row["emulated"], row["rounds"]) == ("emulated", True, 2)
    assert row["overhead"] > 15 and "emulated: overheads are reported, not judged" in on_site.output


def test_where_processors_are_emulated_no_absolute_reference_counts(on_site):
    assert on_site.case("bare", "case=referenced")["fail_phase"] == "performance"
    emulated = on_site.case("bare", "case=emulated-referenced")
    assert emulated["result"] == "pass", emulated["fail_reason"]
    assert emulated["results"][0]["emulated"]


def test_where_processors_are_emulated_wrong_answers_fail(on_site):
    case = on_site.case("generic", "case=emulated-wrong")
    assert (case["result"], case["fail_phase"]) == ("fail", "sanity")
    assert "answers differ: sum is 43.0, bare 42.0" in case["fail_reason"]


@pytest.mark.parametrize(
    ("case", "variant", "said"),
    [
        ("no-image", "generic", "image: /nowhere/openmpi.sif, which the site's extras"),
        ("no-path", "bare", "software: this machine has no /no/sh; the site's"),
        ("no-input", "bare", "input: /no/input, set as 'published' or in the site's extras, "),
    ],
)
def test_what_the_site_names_and_does_not_have_fails_with_the_reason(on_site, case, variant, said):
    assert failed_before_its_job(on_site.case(variant, f"case={case}"), said)


def test_a_program_that_the_image_lacks_fails_before_the_rounds(on_site):
    case = on_site.case("generic", "case=no-program")
    assert "no software: the image has no /own/tree/own-sh" in case["fail_reason"]
    assert record_of_job(case)["runs"] == []


@pytest.mark.skipif(shutil.which("singularity") is not None, reason="there is a Singularity here")
def test_a_runtime_that_the_site_names_and_does_not_have_fails_with_the_reason(on_site):
    said = "container runtime: the site file's container_platforms name Singularity, and no singularity is on the PATH"
    assert failed_before_its_job(on_site.case("generic", "case=no-runtime"), said)


def test_a_ready_image_of_the_site_is_recorded_with_what_it_really_is(faults, on_site):
    built = faults.case("generic", "case=equal")["provenance"]
    known = on_site.case("generic", "case=ready-image")["provenance"]
    assert Path(known["image"]).name == "ready.sif"
    assert known["image_sha256"] == built["image_sha256"]
    assert known["runtimes"]["subject"]["version"]
    assert known["host"] == os.uname().nodename
