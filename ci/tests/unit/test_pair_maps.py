"""The maps of the pairs of ranks on the page, from the files that a run keeps."""

from __future__ import annotations

import os
import re

import made
import pytest
from containercheck.report.page import drawing, pair_maps, palette, shapes
from containercheck.results.cases import collect

HEADER = "first,second,class,latency_us,bandwidth_MB_s"
#: Saved from three ranks of Ping Pong on two cores.
SAVED = f"""{HEADER}
0,1,within_socket,0.254167,10876.1
0,2,within_socket,0.913621,4735.24
1,2,within_socket,0.85163,4711.92
"""


def write(directory, text=SAVED, sides=("baseline", "subject"), when=made.FIRST_NIGHT):
    for side in sides:
        path = directory / "rounds" / f"01-{side}" / "pairs.csv"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (when, when))


def case(directory, variant="generic", **facts):
    row = made.alone("latency") if variant == "bare" else made.row("latency")
    raw = made.case("PingPong", variant, rows=[row], outputdir=str(directory), job_seconds=30.0, **facts)
    return collect([{"runs": [{"testcases": [raw]}]}])[0]


def drawn(*cases):
    return pair_maps.maps("map", cases, 8)


def test_each_value_has_a_map_with_bare_first(tmp_path):
    write(tmp_path)
    charts, problems = drawn(case(tmp_path))
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


def test_both_sides_have_one_scale_and_a_pair_has_two_cells():
    bare = shapes.PairMap("bare", 2, ((0, 1, 1.0),))
    slow = shapes.PairMap("generic", 2, ((0, 1, 100.0),))
    svg = drawing.pair_maps([bare, slow], "latency, us")
    smallest, largest = (svg.count(palette.light(palette.SCALE[place])) for place in (0, -1))
    # The pair of each side, and the scale.
    assert smallest == largest == 2
    cells = max(re.findall(r'<path d="([^"]+)"', svg), key=lambda path: path.count("z"))
    assert cells.count("z") == 2


def test_equal_values_are_drawn():
    assert "bare" in drawing.pair_maps([shapes.PairMap("bare", 2, ((0, 1, 5.0),))], "latency, us")


def test_a_page_of_many_ranks_stays_small():
    """As D12.6 has it: all pairs of 40 ranks."""
    cells = tuple((first, second, 1.0 + first + second) for first in range(40) for second in range(first + 1, 40))
    maps = [shapes.PairMap(name, 40, cells) for name in ("bare", "generic")]
    assert len(drawing.pair_maps(maps, "latency, us")) < 400_000


def test_no_file_is_no_map_and_no_remark(tmp_path):
    assert drawn(case(tmp_path)) == ([], [])
    assert drawn(case("")) == ([], [])


def test_what_failed_has_its_files_where_it_ran(tmp_path):
    write(tmp_path)
    charts, problems = drawn(case("", result="fail", stagedir=str(tmp_path)))
    assert len(charts) == 2 and problems == []


@pytest.mark.parametrize("moved", [-2 * made.DAY, made.DAY])
def test_the_file_of_another_run_is_not_taken_for_this_one(tmp_path, moved):
    write(tmp_path, when=made.FIRST_NIGHT + moved)
    assert drawn(case(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its columns are not first, second, class, latency_us, bandwidth_MB_s"),
        ("first,second\n0,1\n", "its columns are not first"),
        (f"{HEADER}\n", "it has no pairs"),
        (f"{HEADER}\n0,1,within_socket,0.25\n", "its line 2 is not whole"),
        (f"{HEADER}\n0,1,within_socket,fast,1\n", "its line 2 is not whole"),
        (f"{HEADER}\n0,1,within_socket,0,1\n", "its line 2 has a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,1,within_socket,nan,1\n", "its line 2 has a rank below 0, or a value that is not above 0"),
        (f"{HEADER}\n0,4096,within_socket,1,1\n", "it has 4097 ranks, and 512 can be drawn"),
    ],
)
def test_a_file_that_is_no_map_is_told_in_a_line(tmp_path, text, why):
    write(tmp_path, text, sides=("baseline",))
    charts, (problem,) = drawn(case(tmp_path))
    assert charts == []
    assert problem.startswith("PingPong generic, 1 node, cluster:compute: the map of its pairs is not drawn: ")
    assert why in problem and "\n" not in problem


def test_a_file_that_cannot_be_opened_is_told(tmp_path):
    write(tmp_path)
    path = tmp_path / "rounds" / "01-subject" / "pairs.csv"
    path.unlink()
    path.mkdir()
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    charts, (problem,) = drawn(case(tmp_path))
    assert problem.endswith("01-subject/pairs.csv: Is a directory")
    # The other side is drawn all the same.
    assert charts[0].table.headings == ("pair", "class", "bare, us")


def test_bytes_that_are_no_text_are_told(tmp_path):
    write(tmp_path, sides=("baseline",))
    path = tmp_path / "rounds" / "01-baseline" / "pairs.csv"
    path.write_bytes(b"\xff\xfe")
    os.utime(path, (made.FIRST_NIGHT, made.FIRST_NIGHT))
    assert drawn(case(tmp_path))[1][0].endswith("it is no text")


def test_bare_is_drawn_alone_only_where_no_container_ran(tmp_path):
    write(tmp_path / "bare", sides=("baseline",))
    write(tmp_path / "generic")
    bare, generic = case(tmp_path / "bare", "bare"), case(tmp_path / "generic")
    (latency, bandwidth), _ = drawn(bare, generic)
    assert latency.table.headings[2:] == ("bare, us", "generic, us")
    (latency, bandwidth), _ = drawn(bare)
    assert bandwidth.table.headings[2:] == ("bare, MB/s",)
    elsewhere = case(tmp_path / "bare", "bare", partition="other")
    assert len(drawn(elsewhere, generic)[0]) == 4


def test_a_table_of_many_pairs_has_those_that_differ_most(tmp_path):
    lines = [f"{first},{second},within_socket,1,{first + 1}" for first in range(20) for second in range(first)]
    write(tmp_path, "\n".join([HEADER, *lines]), sides=("baseline",))
    write(tmp_path, "\n".join([HEADER, *lines[:-1], lines[-1].replace(",1,", ",9,")]), sides=("subject",))
    (latency, _), _ = drawn(case(tmp_path))
    assert "(60 of 190 pairs: where the sides differ most)" in latency.table.caption
    assert latency.table.rows[-1] == ("19 - 18", "within socket", "1", "9")
