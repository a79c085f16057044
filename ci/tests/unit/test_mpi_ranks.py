"""The time in MPI of each rank on the page, from the file that a run with ``mpi_times`` keeps."""

from __future__ import annotations

import os

import made
import pytest
from containercheck.history.nights import nights
from containercheck.node import contract
from containercheck.report.page import drawing, mpi_ranks, shapes
from containercheck.report.page.applications import applications
from containercheck.results.cases import collect
from containercheck.results.database import StoredSession
from saved import OUTPUTS

#: Four ranks of which each works 20 ms longer than the one before, five times; Open MPI.
SAVED = (OUTPUTS / "mpi_times" / contract.MPI_TIMES).read_text()


def write(directory, text=SAVED, sides=("baseline", "subject")):
    for side in sides:
        path = directory / contract.RUNS / f"01-{side}" / contract.MPI_TIMES
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))


def raw_case(directory):
    return made.case("Amber", rows=[made.row()], outputdir=str(directory), job_seconds=30.0)


def drawn(directory):
    return mpi_ranks.charts("ranks", collect([{"runs": [{"testcases": [raw_case(directory)]}]}]), 4)


def test_each_rank_has_its_time_in_mpi_on_each_side(tmp_path):
    write(tmp_path)
    (chart,), _, problems = drawn(tmp_path)
    assert problems == []
    assert chart.title == "Amber generic, 1 node, cluster:compute: time in MPI of each rank"
    assert chart.table.headings[:3] == ("rank", "bare: in MPI, s", "bare: share, %")
    assert chart.table.rows[0] == ("0", "0.2934", "72.7", "0.2934", "72.7")
    assert "bare: 0.00405 s on rank 3 to 0.293 s on rank 0" in chart.description
    assert "in MPI" in chart.svg and "bare, s" in chart.svg and "generic, s" in chart.svg


def test_functions_are_a_table_with_the_longest_first(tmp_path):
    write(tmp_path)
    _, (table,), _ = drawn(tmp_path)
    assert table.headings[:4] == ("function", "bare: time, s", "bare: share, %", "bare: calls")
    assert table.rows[0][:4] == ("MPI_Allreduce", "0.147", "36.5", "5")
    assert table.rows[1][:4] == ("MPI_Barrier", "0.00189", "0.468", "1")


def test_the_table_stands_on_the_page_with_its_application(tmp_path):
    write(tmp_path)
    session = made.session(0, [raw_case(tmp_path)])
    info = {**session["session_info"]}
    ran = [{**raw, "job_completion_time_unix": made.FIRST_NIGHT} for raw in session["runs"][0]["testcases"]]
    (application,) = applications(nights([StoredSession(info, tuple(ran))]), 8)
    assert [chart.title.rpartition(": ")[2] for chart in application.charts][-1] == "time in MPI of each rank"
    assert application.tables[0].caption.endswith("time in functions of MPI, mean of the ranks")


def test_of_several_programs_of_a_run_the_last_counts(tmp_path):
    write(tmp_path, SAVED.replace("rank 0: 0.293402 s", "rank 0: 0.100000 s") + SAVED)
    (chart,), _, _ = drawn(tmp_path)
    assert chart.table.rows[0][1] == "0.2934"


def test_without_the_file_nothing_is_drawn(tmp_path):
    assert drawn(tmp_path) == ([], [], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no times of ranks"),
        (SAVED.replace("rank 1:", "rank 7:"), "it has no times of ranks"),
        (SAVED.replace("0.203567 s of", "none s of"), "a time is no number"),
        (
            "ranks 513\n" + "".join(f"rank {rank}: 1.0 s of 2.0 s, 50 %\n" for rank in range(513)),
            "it has 513 ranks, and 512 can be drawn",
        ),
    ],
)
def test_a_file_that_cannot_be_drawn_is_told_in_a_line(tmp_path, text, why):
    write(tmp_path, text, sides=("baseline",))
    charts, tables, (problem,) = drawn(tmp_path)
    assert (charts, tables) == ([], [])
    assert problem.startswith("Amber generic, 1 node, cluster:compute: its time in MPI is not drawn: ")
    assert problem.endswith(why)


def test_a_page_of_many_ranks_stays_small():
    sides = [shapes.RankTimes(name, ((1.0, 2.0),) * 512) for name in ("bare", "generic")]
    assert len(drawing.rank_times(sides)) < 250_000
