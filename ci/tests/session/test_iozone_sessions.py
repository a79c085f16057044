"""IOzone in real sessions."""

from pathlib import Path

import pytest
from conftest import REPOSITORY, file_of
from iozone import MODES


@pytest.mark.long
def test_another_file_system_is_measured_in_the_container_and_left_as_it_was(session, site, tmp_path):
    scratch = tmp_path / "scratch of mine"
    scratch.mkdir()
    settings = site(extras={"file_systems": {"scratch": "$SCRATCH_OF/scratch of mine"}})
    case = "IOzone%variant=generic%num_nodes=1%file_system=scratch%access=streams%file_size=512%record_size=1024"
    options = ("-C", settings, "-n", case, "-S", "rounds=1", "-S", "full=yes")
    result = session(*options, checks=file_of("IOzone"), SCRATCH_OF=str(tmp_path))
    assert result.case("generic")["result"] == "pass", result.output
    script = next(result.stage.rglob("rfm_job.sh")).read_text()
    assert f" -f '{scratch}/containercheck-" in script
    assert f" '-B{scratch}:{scratch}' " in script
    assert list(scratch.iterdir()) == []


def test_the_job_looks_at_the_nodes_pages_with_mmap_only(session):
    few = ("-n", "IOzone%variant=bare%.*file_size=512%record_size=4$", "-S", "full=yes")
    result = session("--dry-run", *few, checks=REPOSITORY / "checks" / "iozone.py")
    asking = {path.parent.name for path in result.stage.rglob("*.sh") if "PAGESIZE) -le 4096" in path.read_text()}
    (case,) = [case for case in result.cases if "%access=mmap" in case["name"]]
    assert len(result.cases) == len(MODES), result.output
    assert asking == {Path(case["stagedir"]).name}
