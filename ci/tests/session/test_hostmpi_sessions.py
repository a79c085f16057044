"""The host's MPI in real containers: whose library real processes have mapped."""

from __future__ import annotations

import json

from conftest import file_of


def test_real_processes_have_the_hosts_library_mapped_only_where_they_should(session):
    result = session("-n", "PingPong", "-S", "rounds=1", checks=file_of("PingPong"))
    assert result.status == 0, result.output
    maps = {}
    for record in result.stage.rglob("rounds.json"):
        for run in json.loads(record.read_text())["runs"]:
            side = run["side"] if run["side"] == "baseline" else record.parent.name
            maps.setdefault(side, set()).update((lib["device"], lib["inode"]) for lib in run["mpi"].values())
    integrated = {run for name, run in _libraries(result, "integrated")}
    generic = {run for name, run in _libraries(result, "generic")}
    assert integrated == maps["baseline"]
    assert not generic & maps["baseline"]
    assert all(name.startswith("/host/") for name, _ in _libraries(result, "integrated"))
    assert not any(name.startswith("/host/") for name, _ in _libraries(result, "generic"))


def _libraries(result, variant):
    case = result.case(variant, "PingPong")
    record = json.loads(next(result.stage.rglob(f"*_{case['hashcode']}/rounds.json")).read_text())
    return {
        (path, (library["device"], library["inode"]))
        for run in record["runs"]
        if run["side"] == "subject"
        for path, library in run["mpi"].items()
    }
