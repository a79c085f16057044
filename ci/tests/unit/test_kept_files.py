"""The map of pairs of ranks, and the time of ranks in MPI, from the files that a run keeps."""

from __future__ import annotations

import os
import re

import made
import numpy as np
import pytest
from containercheck.history.nights import nights
from containercheck.job import contract
from containercheck.report.page import drawing, kept_files
from containercheck.report.page.applications import applications
from containercheck.results.cases import collect
from containercheck.results.database import StoredSession
from saved import OUTPUTS

HEADER = "first,second,class,latency_us,bandwidth_MB_s"
#: Saved from three ranks of Ping Pong on two cores.
PAIRS = f"""{HEADER}
0,1,within_socket,0.254167,10876.1
0,2,within_socket,0.913621,4735.24
1,2,within_socket,0.85163,4711.92
"""
#: Four ranks of which each works 20 ms longer than the one before, five times; Open MPI.
TIMES = (OUTPUTS / "mpi_times" / contract.MPI_TIMES).read_text()


def write(directory, text=PAIRS, sides=("baseline", "subject"), when=made.FIRST_NIGHT, name=kept_files.PAIRS):
    for side in sides:
        path = directory / contract.RUNS / f"01-{side}" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (when, when))


def write_times(directory, text=TIMES, **facts):
    write(directory, text, name=contract.MPI_TIMES, **facts)


def raw_case(directory, name="PingPong", variant="generic", **facts):
    row = made.alone("latency") if variant == "bare" else made.row("latency")
    return made.case(name, variant, rows=[row], outputdir=str(directory), job_seconds=30.0, **facts)


def read(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


def maps(*raw):
    return kept_files.maps(read(*raw), 8)


def mpi_times(directory):
    return kept_files.mpi_times(read(raw_case(directory, "Amber")), 4)


def test_each_quantity_has_a_map_with_bare_first(tmp_path):
    write(tmp_path)
    charts, problems = maps(raw_case(tmp_path))
    assert problems == []
    assert [chart.title.rpartition(": ")[2] for chart in charts] == [
        "latency of the pairs of ranks",
        "bandwidth of the pairs of ranks",
    ]
    assert charts[0].table.headings == ("pair", "class", "bare, us", "generic, us")
    assert charts[0].table.rows[0] == ("0 - 1", "within socket", "0.2542", "0.2542")
    assert "bare, within socket: 0.852 (0.254 to 0.914); generic" in charts[0].description
    words = re.findall(r">([^<>]+)</text>", charts[1].svg)
    assert words.index("bare") < words.index("generic") < words.index("bandwidth, MB/s")


def test_both_ranks_of_a_pair_have_its_value_and_other_pairs_have_none(tmp_path):
    write(tmp_path)
    matrix = kept_files.read_pairs(next(tmp_path.rglob("pairs.csv"))).matrix("latency_us")
    assert matrix[0, 1] == matrix[1, 0] == 0.254167
    assert np.isnan(matrix.diagonal()).all()


def test_equal_values_are_drawn():
    assert drawing.pair_maps({"bare": np.array([[np.nan, 5.0], [5.0, np.nan]])}, "latency, us").axes


def test_no_file_is_no_map_and_no_remark(tmp_path):
    assert maps(raw_case(tmp_path)) == maps(raw_case("")) == ([], [])
    assert mpi_times(tmp_path) == ([], [])


def test_a_case_that_failed_has_its_files_in_its_stage_directory(tmp_path):
    write(tmp_path)
    charts, problems = maps(raw_case("", result="fail", stagedir=str(tmp_path)))
    assert len(charts) == 2 and problems == []


@pytest.mark.parametrize("moved", [-2 * made.DAY, made.DAY])
def test_the_file_of_another_run_does_not_count(tmp_path, moved):
    write(tmp_path, when=made.FIRST_NIGHT + moved)
    assert maps(raw_case(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "its columns are not first, second, class, latency_us, bandwidth_MB_s"),
        ("first,second\n0,1\n", "its columns are not first"),
        (f"{HEADER}\n", "it has no pairs"),
        (f"{HEADER}\n0,1,within_socket,0.25\n", "its line 2 is not complete"),
        (f"{HEADER}\n0,1,within_socket,fast,1\n", "its line 2 is not complete"),
        (f"{HEADER}\n0,1,within_socket,0,1\n", "its line 2 has a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,1,within_socket,nan,1\n", "its line 2 has a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,4096,within_socket,1,1\n", "it has 4097 ranks, and 512 can be shown"),
        ("\0" * (kept_files.MOST_BYTES + 1), "it has more than 4 MiB"),
    ],
)
def test_a_file_that_is_not_a_map_is_reported_in_a_line(tmp_path, text, reason):
    write(tmp_path, text, sides=("baseline",))
    charts, (problem,) = maps(raw_case(tmp_path))
    assert charts == []
    assert problem.startswith(f"PingPong generic, 1 node, cluster:compute: cannot show {tmp_path}/")
    assert reason in problem and "\n" not in problem


def test_of_a_file_that_cannot_be_opened_the_other_side_is_drawn(tmp_path):
    write(tmp_path)
    path = tmp_path / contract.RUNS / "01-subject" / "pairs.csv"
    path.unlink()
    path.mkdir()
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    charts, (problem,) = maps(raw_case(tmp_path))
    assert problem.endswith("01-subject/pairs.csv: Is a directory")
    assert charts[0].table.headings == ("pair", "class", "bare, us")


def test_bytes_that_are_not_text_are_reported(tmp_path):
    write(tmp_path, sides=("baseline",))
    path = tmp_path / contract.RUNS / "01-baseline" / "pairs.csv"
    path.write_bytes(b"\xff\xfe")
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    assert "its columns are not" in maps(raw_case(tmp_path))[1][0]


def test_bare_is_drawn_alone_only_where_no_container_ran(tmp_path):
    write(tmp_path / "bare", sides=("baseline",))
    write(tmp_path / "generic")
    bare, generic = raw_case(tmp_path / "bare", variant="bare"), raw_case(tmp_path / "generic")
    (latency, bandwidth), _ = maps(bare, generic)
    assert latency.table.headings[2:] == ("bare, us", "generic, us")
    (latency, bandwidth), _ = maps(bare)
    assert bandwidth.table.headings[2:] == ("bare, MB/s",)
    elsewhere = raw_case(tmp_path / "bare", variant="bare", partition="other")
    assert len(maps(elsewhere, generic)[0]) == 4


def test_a_table_of_many_pairs_has_those_that_differ_most(tmp_path):
    lines = [f"{first},{second},within_socket,1,{first + 1}" for first in range(20) for second in range(first)]
    write(tmp_path, "\n".join([HEADER, *lines]), sides=("baseline",))
    write(tmp_path, "\n".join([HEADER, *lines[:-1], lines[-1].replace(",1,", ",9,")]), sides=("subject",))
    (latency, _), _ = maps(raw_case(tmp_path))
    assert "The table has 60 of 190 pairs: those whose sides differ most." in latency.description
    assert latency.table.rows[-1] == ("19 - 18", "within socket", "1", "9")


def test_ranks_and_functions_are_tables_of_each_side(tmp_path):
    write_times(tmp_path)
    (ranks, functions), problems = mpi_times(tmp_path)
    assert problems == []
    assert ranks.caption == "Amber generic, 1 node, cluster:compute: time in MPI of all 4 ranks"
    assert ranks.headings[:3] == ("rank", "bare: in MPI, s", "bare: share, %")
    assert ranks.rows[0] == ("0", "0.2934", "72.68", "0.2934", "72.68")
    assert functions.headings[:4] == ("function", "bare: time, s", "bare: share, %", "bare: calls")
    assert functions.rows[0][:4] == ("MPI_Allreduce", "0.1475", "36.46", "5")
    assert functions.rows[1][:4] == ("MPI_Barrier", "0.001891", "0.4675", "1")


def test_of_many_ranks_those_with_most_time_in_mpi_are_listed(tmp_path):
    write_times(tmp_path, "ranks 100\n" + "".join(f"rank {rank}: {rank}.0 s of 200.0 s, 1 %\n" for rank in range(100)))
    (ranks, _), _ = mpi_times(tmp_path)
    assert ranks.caption.endswith("time in MPI of the 60 of 100 ranks with most of it")
    assert [ranks.rows[0][0], ranks.rows[-1][0]] == ["99", "40"]


def test_the_tables_stand_on_the_page_with_their_application(tmp_path):
    write_times(tmp_path)
    session = made.session(0, [raw_case(tmp_path, "Amber")])
    ran = [{**raw, "job_completion_time_unix": made.FIRST_NIGHT} for raw in session["runs"][0]["testcases"]]
    (application,) = applications(nights([StoredSession({**session["session_info"]}, tuple(ran))]), 8)
    assert [table.caption.rpartition(": ")[2] for table in application.tables] == [
        "time in MPI of all 4 ranks",
        "mean time of a rank in MPI of all 2 functions",
    ]


def test_of_several_programs_of_a_run_the_last_counts(tmp_path):
    write_times(tmp_path, TIMES.replace("rank 0: 0.293402 s", "rank 0: 0.100000 s") + TIMES)
    (ranks, _), _ = mpi_times(tmp_path)
    assert ranks.rows[0][1] == "0.2934"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no times of ranks"),
        (TIMES.replace("rank 1:", "rank 7:"), "it has no times of ranks"),
        (TIMES.replace("0.203567 s of", "none s of"), "a time is not a number"),
        (
            "ranks 513\n" + "".join(f"rank {rank}: 1.0 s of 2.0 s, 50 %\n" for rank in range(513)),
            "it has 513 ranks, and 512 can be shown",
        ),
    ],
)
def test_a_file_without_times_is_reported_in_a_line(tmp_path, text, reason):
    write_times(tmp_path, text, sides=("baseline",))
    tables, (problem,) = mpi_times(tmp_path)
    assert tables == []
    assert problem.startswith("Amber generic, 1 node, cluster:compute: cannot show ")
    assert problem.endswith(reason)
