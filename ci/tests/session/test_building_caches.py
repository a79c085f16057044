"""What is in a cache needs no job; the look into it takes the machine's lock."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import replace

from containercheck.site.sites import Site
from containercheck.software import Wanted, built_check, sources

HERE = platform.machine()


AWAY = Site("cluster:compute", is_here=False, architecture=HERE, cores=4, gpus=0)


ELSEWHERE = replace(AWAY, architecture="pdp11")


def test_what_is_in_a_cache_needs_no_job(tmp_path, monkeypatch):
    content = tmp_path / "input.txt"
    content.write_text("input")
    digest = subprocess.run(["sha256sum", content], capture_output=True, text=True).stdout.split()[0]
    site = replace(ELSEWHERE, input_cache=str(tmp_path / "cache"))
    wanted = Wanted("GROMACS", "gmx_mpi", published=f"{content.as_uri()}#sha256={digest}")
    (command,) = sources.provide_input(wanted, site).build
    assert not built_check._is_in_caches([command], tmp_path)
    assert not (tmp_path / "cache").exists()
    assert subprocess.run(command, shell=True, cwd=tmp_path).returncode == 0
    (tmp_path / "published").unlink()
    assert built_check._is_in_caches([command], tmp_path)
    assert (tmp_path / "published").read_text() == "input"
    # Anything else may do what it likes.
    assert not built_check._is_in_caches([command, "mpicc"], tmp_path)
