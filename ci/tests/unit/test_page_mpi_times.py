"""The time of ranks in MPI on the page, from the files that a run keeps."""

from __future__ import annotations

import os

import made
import pytest
from containercheck.history.nights import Night
from containercheck.job import contract
from containercheck.report.page import mpi_times
from containercheck.report.page.applications import applications
from saved import OUTPUTS

#: Four ranks of which each works 20 ms longer than the one before, five times; Open MPI.
TIMES = (OUTPUTS / "mpi_times" / contract.MPI_TIMES).read_text()


def write(directory, text=TIMES, sides=("baseline", "subject"), when=made.FIRST_NIGHT):
    for side in sides:
        path = directory / contract.RUNS / f"01-{side}" / contract.MPI_TIMES
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (when, when))


def raw_case(directory, name="Amber", variant="generic", **facts):
    row = made.alone("latency") if variant == "bare" else made.row("latency")
    return made.case(name, variant, rows=[row], outputdir=str(directory), job_seconds=30.0, **facts)


def tables(*raw):
    return mpi_times.tables(made.cases(raw), 4)


@pytest.mark.parametrize("moved", [None, -2 * made.DAY, made.DAY])
def test_without_a_file_of_this_run_there_is_no_table_and_no_remark(tmp_path, moved):
    if moved:
        write(tmp_path, when=made.FIRST_NIGHT + moved)
    assert tables(raw_case(tmp_path)) == tables(raw_case("")) == ([], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TIMES.replace("rank ", "part "), "it has no times of ranks"),
        ("\0" * (mpi_times.MOST_BYTES + 1), "it has more than 4 MiB"),
        (None, "Is a directory"),
    ],
)
def test_a_file_without_times_is_reported_in_a_line_and_the_other_side_shown(tmp_path, text, reason):
    write(tmp_path)
    path = tmp_path / contract.RUNS / "01-subject" / contract.MPI_TIMES
    path.unlink()
    path.mkdir() if text is None else path.write_text(text)
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    (ranks, _), (problem,) = tables(raw_case(tmp_path))
    assert problem == f"Amber generic, 1 node, cluster:compute: cannot show {path}: {reason}"
    assert ranks.headings == ("rank", "bare: in MPI, s", "bare: share, %")


def test_bare_is_shown_alone_only_where_no_container_ran(tmp_path):
    write(tmp_path / "bare", sides=("baseline",))
    write(tmp_path / "generic")
    bare, generic = raw_case(tmp_path / "bare", variant="bare"), raw_case(tmp_path / "generic")
    assert len(tables(bare, generic)[0]) == len(tables(bare)[0]) == 2
    elsewhere = raw_case(tmp_path / "bare", variant="bare", partition="other")
    assert len(tables(elsewhere, generic)[0]) == 4


def test_ranks_and_functions_are_tables_of_each_side_with_their_application(tmp_path):
    write(tmp_path)
    (case,) = made.cases([raw_case(tmp_path)])
    (application,) = applications([Night("1", 0.0, "", (case,))], 8)
    ranks, functions = application.tables
    assert ranks.caption == "Amber generic, 1 node, cluster:compute: time in MPI of all 4 ranks"
    assert ranks.headings[:3] == ("rank", "bare: in MPI, s", "bare: share, %")
    assert ranks.rows[0] == ("0", "0.2934", "72.68", "0.2934", "72.68")
    assert functions.caption.endswith(": mean time of a rank in MPI of all 2 functions")
    assert functions.headings[:4] == ("function", "bare: time, s", "bare: share, %", "bare: calls")
    assert functions.rows[0][:4] == ("MPI_Allreduce", "0.1475", "36.46", "5")


def test_of_many_ranks_those_with_most_time_in_mpi_are_listed(tmp_path):
    text = "ranks 100\n" + "".join(f"rank {rank}: {rank}.0 s of 200.0 s, 1 %\n" for rank in range(100))
    write(tmp_path, text)
    (ranks, _), _ = tables(raw_case(tmp_path))
    assert ranks.caption.endswith("time in MPI of the 60 of 100 ranks with most of it")
    assert [ranks.rows[0][0], ranks.rows[-1][0]] == ["99", "40"]


def test_of_several_programs_of_a_run_the_last_counts():
    times = mpi_times.read_mpi_times(TIMES.replace("rank 0: 0.293402 s", "rank 0: 0.100000 s") + TIMES)
    assert times.ranks["0"][0] == 0.293402
