"""The axis of threads: what it makes of the ranks, and that a program without threads is told."""

import subprocess
from types import SimpleNamespace

import pytest
from containercheck.application.axes import ALL_CORES, PLAIN, RanksPerNode, ThreadsPerRank
from containercheck.application.declare import skip_without_threads
from containercheck.job.contract import UNSUPPORTED
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

#: A program with OpenMP, which does nothing.
PROGRAM = "int main(void) {\n#pragma omp parallel\n;\nreturn 0; }\n"


def layout(ranks, openmp, cores=48, ranks_per_node=None):
    """Return ranks and threads of a node, whichever of the two hooks comes first."""
    laid_out = []
    for hooks in ((RanksPerNode.choose_ranks, ThreadsPerRank.choose_threads), (ThreadsPerRank.choose_threads,) * 2):
        check = SimpleNamespace(ranks=ranks, openmp=openmp, threads=1, ranks_per_node=ranks_per_node)
        for hook in (*hooks, RanksPerNode.choose_ranks):
            hook(check)
        site = Site("cluster:compute", False, "x86_64", cores, 0)
        laid_out.append(Layout.on(site, 1, check.ranks_per_node, check.threads, 1))
    assert laid_out[0] == laid_out[1]
    return laid_out[0].ranks_per_node, laid_out[0].threads


@pytest.mark.parametrize(
    ("ranks", "openmp", "mix"),
    [
        (0, PLAIN["openmp"], (48, 1)),
        (8, PLAIN["openmp"], (8, 1)),
        # D12.5 section 3.3.1.
        (8, ALL_CORES, (8, 6)),
        (0, ALL_CORES, (1, 48)),
        (32, ALL_CORES, (32, 1)),
    ],
)
def test_ranks_and_threads_fill_a_node(ranks, openmp, mix):
    assert layout(ranks, openmp) == mix


def test_ranks_of_the_command_line_count_where_the_axis_says_none():
    assert layout(0, 1, ranks_per_node=3) == (3, 1)
    assert layout(2, 1, ranks_per_node=3) == (2, 1)


@pytest.mark.parametrize(("options", "status"), [(["-fopenmp"], 0), ([], UNSUPPORTED)], ids=["with", "without"])
def test_a_program_without_threads_is_skipped_with_the_reason(options, status, tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    subprocess.run(["cc", *options, "-o", program, tmp_path / "program.c"], check=True)
    result = subprocess.run(["sh", "-c", skip_without_threads(str(program))], capture_output=True, text=True)
    assert result.returncode == status
    reason = f"error: no threads: {program} is linked with no OpenMP: name a build with it\n"
    assert result.stderr == (reason if status else "")
