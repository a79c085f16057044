"""Where the script that repeats a run lies after a session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import PLANTED


def reproduce(script, *words, cwd):
    done = subprocess.run(["bash", str(script), *words], cwd=cwd, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_after_a_pass_it_lies_in_the_output_directory_and_after_a_failure_where_the_job_ran(session, tmp_path):
    words = ["-n", "Planted%variant=generic", "-S", "rounds=1"]
    passed = session(*words, "-S", "strict_check=no").case("generic")
    script = Path(passed["reproducer"])
    assert (passed["result"], script.is_relative_to(tmp_path / "output")) == ("pass", True), passed["fail_reason"]
    for side in ("baseline", "subject"):
        status, output, said = reproduce(script, side, cwd=tmp_path)
        assert (status, output.splitlines()[-1].split()[0]) == (0, "sum"), said
    # As ReFrame removes it, unless it is told to keep it.
    shutil.rmtree(tmp_path / "stage")
    assert reproduce(script, "baseline", cwd=tmp_path)[2].endswith("run the check again with --keep-stage-files\n")
    failed = session(*words, "-S", "fault=wrong", checks=PLANTED).case("generic")
    assert failed["result"] == "fail"
    script = Path(failed["reproducer"])
    assert script.parent == Path(failed["stagedir"])
    assert reproduce(script, "subject", cwd=tmp_path)[1] != reproduce(script, "baseline", cwd=tmp_path)[1]
