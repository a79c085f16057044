"""IOzone's output, in each of its modes."""

import os
import subprocess

import pytest
from containercheck import skip_unless
from iozone import MODES, IOzone, report
from saved import metrics, problems


def check(mode):
    """Return what the check reads in a mode."""
    return type(
        "Check",
        (),
        {
            "metrics": [report(title) for title in MODES[mode][1]],
            "answers": IOzone.answers,
            "rank_count": None,
        },
    )


def test_the_metrics_of_the_seed():
    assert metrics(check("random_strided"), "iozone/passing", ranks=1) == {
        "writer": 1321823,
        "re-writer": 2434835,
        "random_read": 1244310,
        "random_write": 4030535,
        "stride_read": 1771237,
    }


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "random_strided"])
def test_every_mode_reports_what_it_is_asked_for(mode):
    found = metrics(check(mode), f"iozone/{mode}", ranks=1)
    assert len(found) == 4
    assert all(value > 0 for value in found.values())


def test_a_mode_with_mixed_up_reports_is_read_from_the_table():
    found = metrics(check("positioned"), "iozone/positioned", ranks=1)
    assert found == {"pwrite": 3656565, "re-pwrite": 3031837, "pread": 1604772, "re-pread": 1942616}


def test_a_full_disk_is_no_result():
    (problem,) = problems(check("random_strided"), "iozone/failing", ranks=1)
    assert "writer is 0" in problem


@pytest.mark.parametrize(("page", "status"), [(4096, 0), (65536, 3)])
def test_records_of_less_than_a_page_are_a_skip_with_mmap(page, status, tmp_path):
    """As on POWER, whose pages have 64 KiB: IOzone would write them, and flush nothing."""
    (tmp_path / "getconf").write_text(f"#!/bin/sh\n[ $1 = PAGESIZE ] && echo {page}\n")
    (tmp_path / "getconf").chmod(0o755)
    command = skip_unless("[ $(getconf PAGESIZE) -le 4096 ]", "less than a page: $(getconf PAGESIZE) bytes")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "error: less than a page: 65536 bytes\n" if status else "")
