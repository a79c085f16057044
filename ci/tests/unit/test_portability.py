"""The table of host release by image release: what a cell says."""

from __future__ import annotations

import portability
from containercheck.results.cases import collect
from containercheck.site import sites


def case(name, variant, result="pass", **facts):
    figure = portability.FIGURES[name]
    row = {"figure": figure, "overhead": 1.234, "unit": "%", "verdict": "pass", "compare": "ratio", "better": "lower"}
    return {
        "name": name,
        "display_name": f"{name} %variant={variant} %num_nodes=1",
        "unique_name": f"{name}_{variant}",
        "partition": "default",
        "environ": "builtin",
        "variant": variant,
        "num_nodes": 1,
        "result": result,
        "results": [row] if result == "pass" else [],
        **facts,
    }


def cases(*raws):
    return collect([{"runs": [{"testcases": list(raws)}]}])


def test_the_releases_are_those_of_the_table():
    assert tuple(portability.releases_of_images()) == (*sites.RELEASES,)


def test_a_cell_says_how_fast_or_why_not():
    note = "ranks are started by other means, because of PMIx"
    reason = "error: the host's libc is\nnewer than the image's"
    found = {
        "bookworm": cases(
            case("PingPong", "integrated", "fail", fail_reason=reason),
            case("PingPong", "generic", notes=["the machine is busy", note]),
            case("HPCC", "integrated", "fail", fail_reason=reason),
        ),
        "trixie": cases(
            case("PingPong", "integrated"), case("HPCC", "generic", "skip", skip_reason="no software: hpcc")
        ),
    }
    lines = portability.markdown(found, "Debian 13")
    assert lines[0] == "| application | figure | variant | bookworm on Debian 13 | trixie on Debian 13 |"
    table = {tuple(line.split(" | ")[0:3:2]): line.split(" | ")[3:] for line in lines[2:10]}
    integrated, generic = (table["| PingPong", variant] for variant in ("integrated", "generic"))
    assert integrated[0] == "no [1]"
    assert integrated[1].startswith("+1.2 ")
    assert generic[0].startswith("+1.2 ")
    assert generic[0].endswith("[2]")
    assert table["| HPCC", "integrated"][0] == "no [1]"
    assert table["| HPCC", "generic"] == ["-", "no [3] |"]
    assert lines[-3:] == [
        "[1] error: the host's libc is newer than the image's",
        "[2] ranks are started by other means, because of PMIx",
        "[3] no software: hpcc",
    ]
