"""Cases of the full axes are generated only where somebody asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPOSITORY
from containercheck.command import run
from containercheck.session import reframe_process

STARTUP = REPOSITORY / "checks" / "startup.py"
#: A partition of another machine: no command of it is looked for here.
ELSEWHERE = {
    "scheduler": "slurm",
    "launcher": "srun",
    "processor": {"arch": "zen3", "num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1},
    "extras": {"release": "bookworm"},
}


def test_a_plain_session_has_the_plain_cases(session):
    result = session("--dry-run", checks=STARTUP)
    assert {case["name"].split(" %", 1)[1].split(" ")[-1] for case in result.cases} == {"%circumstances=usual"}
    assert len(result.cases) == 3


def test_a_session_of_nothing_else_says_how_to_have_them(tmp_path, capsys):
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    place = reframe_process.Workplace(tmp_path, checks=str(STARTUP), config=tmp_path / "config.py")
    assert run.session(["--estimate", "-n", "circumstances=many_files"], place) == 2
    assert "no check was run: nothing matches the selection (full axes: --full)" in capsys.readouterr().out


@pytest.mark.parametrize(("full", "count"), [(("-S", "full=yes"), 3), ((), 1)])
def test_a_partition_with_several_runtimes_runs_each_on_the_full_axes(session, site, full, count):
    engine = {"type": "Podman", "default": True, "env_vars": [["CONTAINERS_CONF", "/site/containers.conf"]]}
    named = [{"type": "Sarus"}, {"type": "Shifter"}, engine]
    settings = site(**ELSEWHERE, container_platforms=named)
    result = session("--dry-run", "-C", settings, *full, "-n", "variant=generic.*usual", checks=STARTUP)
    plain = [case for case in result.cases if "%image_in=shared %image_release=fitting" in case["name"]]
    assert len(plain) == count, result.output
    jobs = [(Path(case["stagedir"]) / "commands.json") for case in plain if case["result"] == "pass"]
    assert [" podman run " in job.read_text() for job in jobs] == [True]
    # The build step loads images with its settings too.
    scripts = [jobs[0].with_name(name).read_text() for name in ("rfm_build.sh", "rfm_job.sh")]
    assert [script.count("export CONTAINERS_CONF=/site/containers.conf\n") for script in scripts] == [1, 1]
    # Its runtimes cannot build images: that is a reason of these cases only.
    reasons = sorted(case["skip_reason"].partition(":")[2].split()[0] for case in plain if case["result"] == "skip")
    assert reasons == ["sarus", "shifter"][: count - 1]
    # The image's other axes have the partition's own runtime, and bare has none.
    others = session("--dry-run", "-C", settings, *full, "-n", "platform=S", checks=STARTUP).cases
    assert all(" %image_in=shared %image_release=fitting " in case["name"] for case in others)
    assert {case["variant"] for case in others} == ({"generic", "integrated"} if full else set())


@pytest.mark.parametrize(("arch", "option"), [("sm_70", " --nv "), ("gfx90a", " --rocm ")])
def test_a_start_with_gpus_is_a_case_where_the_nodes_have_some(session, site, arch, option):
    words = ("--dry-run", "-S", "full=yes", "-n", "variant=generic.*circumstances=(usual|gpus)")
    devices = [{"type": "gpu", "arch": arch, "num_devices": 2}]
    settings = site(**ELSEWHERE, devices=devices, container_platforms=[{"type": "Apptainer"}])
    cases = session("-C", settings, *words, checks=STARTUP).cases
    jobs = {case["name"]: Path(case["stagedir"], "commands.json").read_text() for case in cases}
    assert {("=gpus" in name) == (option in job) for name, job in jobs.items()} == {True}
    # With the usual image only.
    assert sum("=gpus" in name for name in jobs) == 1 < len(jobs)
    assert not [case for case in session(*words, checks=STARTUP).cases if "=gpus" in case["name"]]


@pytest.mark.parametrize("request_", [("-S", "StartUp.full=yes"), ("-C", "config/common.py", "--mode=full")])
def test_who_asks_for_them_has_them_all(session, tmp_path, request_):
    (tmp_path / "config").symlink_to(REPOSITORY / "config")
    result = session("--dry-run", *request_, "-n", "variant=generic", checks=STARTUP)
    assert len(result.cases) > 10
