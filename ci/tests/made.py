"""Made results: test cases, sessions and databases as ReFrame writes them, with values that are drawn by a seed."""

from __future__ import annotations

import datetime
import json
import random
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from containercheck.results.cases import Case, collect

#: A night begins at ten in the evening, UTC.
FIRST_NIGHT, DAY = 1793570400, 86400
VARIANTS = ("bare", "integrated", "generic")
APPLICATIONS = ("GROMACS", "HPCC", "HPL", "IMB", "OpenFOAM", "PingPong", "QuantumEspresso", "StartUp", "WordCount")


def row(metric: str = "rate", bare: float = 100.0, overhead: float = 1.0, **facts: Any) -> dict[str, Any]:
    """Return a metric that was compared: an overhead in percent, known within two."""
    subject = {"subject": bare * (1 - overhead / 100), "subject_label": "generic"}
    subject.update(subject_error=bare / 200, subject_spread=bare / 40)
    compared = {"overhead": overhead, "low": overhead - 2, "high": overhead + 2, "interval": 2.0, "overhead_unit": "%"}
    verdict = {"accepted": [None, 10.0], "expected": False, "verdict": "pass", "spread": 3.0}
    rounds = {"rounds": 12, "rounds_needed": None, "round_seconds": 2.0}
    return {**alone(metric, bare), "baseline_spread": bare / 50, **subject, **compared, **verdict, **rounds, **facts}


#: What is known of open metrics, by their kind.
ANSWERS = {
    "slower": "too slow, not yet certain",
    "faster": "87 % better than bare: does it compute the same?",
    "close": "close to the tolerance, at most 6.1 % worse",
    "noisy": "at most 12 % worse; a minute here is too short to show 5 %",
}


def opened(kind: str, metric: str = "rate", bare: float = 100.0, **facts: Any) -> dict[str, Any]:
    """Return a metric whose verdict is open, of a kind."""
    known = {"verdict": "inconclusive", "open_kind": kind, "answer": ANSWERS[kind]}
    overhead = facts.pop("overhead", 1.0)
    return row(metric, bare, overhead, **{**known, **facts})


def alone(metric: str = "rate", bare: float = 100.0, **facts: Any) -> dict[str, Any]:
    """Return a metric of a bare case."""
    made = {"metric": metric, "unit": "ns/day", "better": "higher", "baseline": bare, "baseline_label": "bare"}
    return {**made, "baseline_error": bare / 200, **facts}


def case(
    name: str = "Code", variant: str = "generic", nodes: int = 1, rows: Iterable[Mapping[str, Any]] = (), **facts: Any
) -> dict[str, Any]:
    """Return a test case as ReFrame stores it; it passed."""
    axes = facts.pop("axes", "")
    display = f"{name} %variant={variant} %num_nodes={nodes}{axes}"
    rows = [dict(row) for row in rows]
    for row in rows:
        if "subject" in row:
            row["subject_label"] = variant
    made = {
        "name": display,
        "display_name": display,
        "unique_name": f"{name}_{variant}_{nodes}{axes}".replace(" ", ""),
        "system": "cluster",
        "partition": "compute",
        "environ": "builtin",
        "variant": variant,
        "num_nodes": nodes,
        "result": "pass",
        "fail_reason": None,
        "fail_phase": None,
        "skip_reason": "",
        "results": rows,
        "perfvalues": {f"cluster:compute:{row['metric']}": [1.0, 0, None, None, row["unit"], "pass"] for row in rows},
        "expected": {"ranks": 4 * nodes, "amount": 1000.0 * nodes, "unit": "atoms", "at_most": 900},
        "job_completion_time_unix": FIRST_NIGHT,
        "tags": [],
        "provenance": provenance(variant),
    }
    return {**made, **facts}


def cause(sentence: str = "X=1 is set", **facts: Any) -> dict[str, Any]:
    """Return a possible cause of a failure, as a job stores it."""
    made = {"rule": "variable", "about": "X", "sentence": sentence, "remedy": "unset it", "source": "a#1"}
    return {**made, "kinds": ["computing"], "experiment": {"kind": "unset", "value": "X"}, **facts}


def provenance(variant: str, version: str = "1.3.4") -> dict[str, Any]:
    """Return what ran in a case."""
    made = {
        "host": "node1",
        "kept_awake": True,
        "machine": {"kernel": "6.1.0-40-amd64", "processor": "Made 7000", "system": "Debian 12"},
        "mpi": {"baseline": ["/usr/lib/libmpi.so.40.30.4"]},
        "runtimes": {},
    }
    if variant != "bare":
        made["mpi"] = {**made["mpi"], "subject": ["/usr/lib/libmpi.so.40.30.4"]}
        made["runtimes"] = {"subject": {"command": "apptainer", "version": f"apptainer version {version}"}}
        made["image"], made["image_release"] = "/images/code-bookworm.sif", "bookworm"
        made["image_sha256"] = "ab" * 32
    return made


def session(night: int, cases: Iterable[dict[str, Any]], **extras: Any) -> dict[str, Any]:
    """Return a run of reframe in a night, as it is stored.

    :param night: its number, from 0 on.
    :param extras: of ``--session-extras``.
    """
    began = FIRST_NIGHT + night * DAY + (3600 if extras.get("nightly_pass") else 0)
    told = [{**case_, "job_completion_time_unix": began + 600} for case_ in cases]
    info = {"time_start_unix": began, "time_end_unix": began + 1800, "uuid": f"{night}-{began}"}
    info.update({"nightly": datetime.datetime.fromtimestamp(FIRST_NIGHT + night * DAY).date().isoformat(), **extras})
    return {"session_info": info, "runs": [{"testcases": told}]}


def cases(*runs: Iterable[dict[str, Any]]) -> list[Case]:
    """Return the cases of these runs of ReFrame, each with its test cases, as reports have them."""
    return collect([{"runs": [{"testcases": list(run)} for run in runs]}])


def nightly(night: int, size: int = 3, worse: float = 0.0, seed: int = 7) -> list[dict[str, Any]]:
    """Return the cases of a night: of each application so many metrics, in all variants, over 1, 2 and 4 nodes.

    :param worse: by so many percent the generic variant of PingPong is worse, in all its metrics.
    """
    draw = random.Random(seed * 1000 + night)
    found = []
    for place, name in enumerate(APPLICATIONS):
        for nodes in (1, 2, 4) if name != "StartUp" else (1,):
            scale = 50.0 * (place + 1) * nodes**0.9
            for variant in VARIANTS:
                rows = []
                for number in range(size):
                    bare = scale * (number + 1) * draw.gauss(1, 0.005)
                    if variant == "bare":
                        rows.append(alone(f"metric_{number + 1}", bare))
                        continue
                    more = draw.gauss(1 if variant == "integrated" else 3, 0.4)
                    more += worse if (name, variant) == ("PingPong", "generic") else 0
                    verdict = "fail" if more > 10 else "pass"
                    rows.append(row(f"metric_{number + 1}", bare, more, low=more - 2, high=more + 2, verdict=verdict))
                rows[0]["scaling"] = "strong"
                work = {"ranks": 4 * nodes, "amount": 1000.0, "unit": "atoms"}
                found.append(case(name, variant, nodes, rows, expected=work, **_result(rows)))
    return found


def _result(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how a case with these metrics ended."""
    failed = [f"{row['metric']} is {row['overhead']:.1f} % worse" for row in rows if row.get("verdict") == "fail"]
    if not failed:
        return {"result": "pass"}
    return {"result": "fail", "fail_phase": "performance", "fail_reason": "performance error: " + "\n".join(failed)}


def store(path: Path, sessions: Iterable[dict[str, Any]]) -> Path:
    """Write a database with these sessions, of ReFrame's schema 1.0, and return its path."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, "
        "json_blob TEXT, report_file TEXT)"
    )
    database.execute("CREATE TABLE metadata(schema_version TEXT)")
    database.execute("INSERT INTO metadata VALUES ('1.0')")
    for session in sessions:
        info = session["session_info"]
        values = (info["uuid"], info["time_start_unix"], info["time_end_unix"], json.dumps(session), "")
        database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", values)
    database.commit()
    database.close()
    return path
