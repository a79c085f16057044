"""The map of pairs of ranks, and the time of ranks in MPI, from the files that a run keeps."""

from __future__ import annotations

import os

import made
import numpy as np
import pytest
from containercheck.history.nights import Night
from containercheck.job import contract
from containercheck.report.page import kept_files, plots
from containercheck.report.page.applications import applications
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


def raw_case(directory, name="PingPong", variant="generic", **facts):
    row = made.alone("latency") if variant == "bare" else made.row("latency")
    return made.case(name, variant, rows=[row], outputdir=str(directory), job_seconds=30.0, **facts)


def read(*raw):
    return made.cases(raw)


def maps(*raw):
    return kept_files.maps(read(*raw), 8)


def mpi_times(directory):
    return kept_files.mpi_times(read(raw_case(directory, "Amber")), 4)


def test_each_quantity_has_a_map_with_bare_first(tmp_path):
    write(tmp_path)
    # A case that failed has its files in its stage directory.
    for where in (raw_case(tmp_path), raw_case("", result="fail", stagedir=str(tmp_path))):
        charts, problems = maps(where)
        assert problems == []
        assert [chart.title.rpartition(": ")[2] for chart in charts] == [
            "latency of the pairs of ranks",
            "bandwidth of the pairs of ranks",
        ]
        assert charts[0].table.rows == tuple((side, "0.8516", "0.2542", "0.9136") for side in ("bare", "generic"))


def test_both_ranks_of_a_pair_have_its_value_and_other_pairs_have_none():
    matrix = kept_files.read_pairs(PAIRS)["latency_us"]
    assert matrix[0, 1] == matrix[1, 0] == 0.254167
    assert np.isnan(matrix.diagonal()).all()
    # Equal values are drawn.
    assert plots.pair_maps({"bare": np.array([[np.nan, 5.0], [5.0, np.nan]])}, "latency, us").axes


@pytest.mark.parametrize("moved", [None, -2 * made.DAY, made.DAY])
def test_without_a_file_of_this_run_there_is_no_map_and_no_remark(tmp_path, moved):
    if moved:
        write(tmp_path, when=made.FIRST_NIGHT + moved)
    assert maps(raw_case(tmp_path)) == maps(raw_case("")) == mpi_times(tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("first,second\n0,1\n", "it is not a map of pairs of ranks"),
        (f"{HEADER}\n0,1,within_socket,0.25\n", "it is not a map of pairs of ranks"),
        (f"{HEADER}\n0,1,within_socket,fast,1\n", "it is not a map of pairs of ranks"),
        (b"\xff\xfe", "it has no pairs, a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,1,within_socket,nan,1\n", "it has no pairs, a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n-1,1,within_socket,1,1\n", "it has no pairs, a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,4096,within_socket,1,1\n", "it has 4097 ranks, and 512 can be shown"),
        ("\0" * (kept_files.MOST_BYTES + 1), "it has more than 4 MiB"),
        (None, "Is a directory"),
    ],
)
def test_a_file_that_is_not_a_map_is_reported_in_a_line_and_the_other_side_drawn(tmp_path, text, reason):
    write(tmp_path)
    path = tmp_path / contract.RUNS / "01-subject" / kept_files.PAIRS
    path.unlink()
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    charts, (problem,) = maps(raw_case(tmp_path))
    assert problem == f"PingPong generic, 1 node, cluster:compute: cannot show {path}: {reason}"
    assert {row[0] for row in charts[0].table.rows} == {"bare"}


def test_bare_is_drawn_alone_only_where_no_container_ran(tmp_path):
    write(tmp_path / "bare", sides=("baseline",))
    write(tmp_path / "generic")
    bare, generic = raw_case(tmp_path / "bare", variant="bare"), raw_case(tmp_path / "generic")
    assert len(maps(bare, generic)[0]) == 2
    (latency, _), _ = maps(bare)
    assert [row[0] for row in latency.table.rows] == ["bare"]
    elsewhere = raw_case(tmp_path / "bare", variant="bare", partition="other")
    assert len(maps(elsewhere, generic)[0]) == 4


def test_ranks_and_functions_are_tables_of_each_side_with_their_application(tmp_path):
    write(tmp_path, TIMES, name=contract.MPI_TIMES)
    (case,) = read(raw_case(tmp_path, "Amber"))
    (application,) = applications([Night("1", 0.0, "", (case,), frozenset())], 8)
    ranks, functions = application.tables
    assert ranks.caption == "Amber generic, 1 node, cluster:compute: time in MPI of all 4 ranks"
    assert ranks.headings[:3] == ("rank", "bare: in MPI, s", "bare: share, %")
    assert ranks.rows[0] == ("0", "0.2934", "72.68", "0.2934", "72.68")
    assert functions.caption.endswith(": mean time of a rank in MPI of all 2 functions")
    assert functions.headings[:4] == ("function", "bare: time, s", "bare: share, %", "bare: calls")
    assert functions.rows[0][:4] == ("MPI_Allreduce", "0.1475", "36.46", "5")


def test_of_many_ranks_those_with_most_time_in_mpi_are_listed(tmp_path):
    text = "ranks 100\n" + "".join(f"rank {rank}: {rank}.0 s of 200.0 s, 1 %\n" for rank in range(100))
    write(tmp_path, text, name=contract.MPI_TIMES)
    (ranks, _), _ = mpi_times(tmp_path)
    assert ranks.caption.endswith("time in MPI of the 60 of 100 ranks with most of it")
    assert [ranks.rows[0][0], ranks.rows[-1][0]] == ["99", "40"]


def test_of_several_programs_of_a_run_the_last_counts():
    times = kept_files.read_mpi_times(TIMES.replace("rank 0: 0.293402 s", "rank 0: 0.100000 s") + TIMES)
    assert times.ranks["0"][0] == 0.293402


def test_a_file_without_times_is_reported_in_a_line(tmp_path):
    write(tmp_path, TIMES.replace("rank ", "part "), sides=("baseline",), name=contract.MPI_TIMES)
    tables, (problem,) = mpi_times(tmp_path)
    assert tables == []
    assert problem.startswith("Amber generic, 1 node, cluster:compute: cannot show ")
    assert problem.endswith(": it has no times of ranks")
