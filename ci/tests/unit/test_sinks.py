"""Results that are sent to a site's sinks: their formats, their secrets, and sinks that are dead."""

from __future__ import annotations

import http.server
import json
import re
import socket
import threading
import time
from pathlib import Path

import made
import pytest
from conftest import REPOSITORY
from containercheck.command import nightly
from containercheck.report import push
from containercheck.report.push import Outcome
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Configuration, Workplace
from containercheck.site import sinks
from containercheck.site.extras import SiteError
from containercheck.site.sinks import Sink

FAILED = {"result": "fail", "fail_phase": "performance", "fail_reason": "rate is 34 % <worse> than bare & more\nsecond"}
ROWS = [made.row("rate", overhead=34.0, verdict="fail"), made.opened("close", 'odd"\\metric', low=None)]
CASES = made.cases(
    [
        made.case("GROMACS", "bare", 2, [made.alone()]),
        made.case("GROMACS", "generic", 2, ROWS, causes=[made.cause()], **FAILED),
        made.case("HPCC", "generic", 1, [made.row("HPL", 80.0)], axes=" %size=big"),
        made.case("Broken", "generic", 1, [], result="fail", fail_phase="run", fail_reason="it hung"),
        made.case("LAMMPS", "generic", 1, [], result="skip", skip_reason="no LAMMPS here"),
    ]
)


def outcome(cases=CASES, status=1, **facts):
    return Outcome("nightly", status, "a regression", cases, Path("/reports/report.html"), system="cluster", **facts)


# Formats


def test_prometheus_reads_the_metrics():
    parser = pytest.importorskip("prometheus_client.parser", reason="no prometheus-client: ci/setup --tests")
    from prometheus_client.openmetrics import parser as openmetrics

    text = push.metrics(outcome(changes=["bare moved"]))
    families = {family.name: family.samples for family in parser.text_string_to_metric_families(text)}
    assert {*families} == {f"{push.PREFIX}{name}" for name in push.HELP}
    assert [family.name for family in openmetrics.text_string_to_metric_families(text)] == [*families]

    def value(name, **labels):
        samples = families[f"containercheck_{name}"]
        (found,) = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
        return found

    assert value("status", command="nightly", system="cluster") == 1
    assert value("changes") == 1
    assert time.time() - value("end_timestamp_seconds") < 60
    rate = {"application": "GROMACS", "variant": "generic", "nodes": "2", "metric": "rate"}
    assert value("overhead", unit="%", **rate) == 34
    assert (value("overhead_low", **rate), value("overhead_high", **rate)) == (32, 36)
    assert (value("verdict", **rate), value("verdict", metric='odd"\\metric')) == (1, 2)
    assert value("verdict", axes="size=big", metric="HPL") == 0
    assert value("baseline", variant="bare", unit="ns/day") == 100
    assert [value("cases", outcome=word) for word in ("fail", "pass", "skipped", "ran")] == [2, 1, 1, 1]


def test_no_sample_occurs_twice_where_several_subjects_were_compared():
    rows = [made.row(), made.row()]
    raw = made.case("GROMACS", "generic", 1, rows)
    for row, name in zip(raw["results"], ("old", "new")):
        row["subject_label"] = name
    lines = push.metrics(outcome(made.cases([raw]))).splitlines()
    labels = [line.rpartition(" ")[0] for line in lines if line.startswith("containercheck_overhead{")]
    assert len(labels) == len({*labels}) == 2


def test_each_line_of_json_fits_the_schema_and_has_verdict_overhead_interval_and_cause():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((REPOSITORY / "ci/docs/result.schema.json").read_text())
    lines = [json.loads(line) for line in push.json_lines(outcome()).splitlines()]
    for line in lines:
        jsonschema.validate(line, schema)
        assert {*line} <= {*schema["properties"]}
    rate = next(line for line in lines if line.get("metric") == "rate" and line["variant"] == "generic")
    assert (rate["verdict"], rate["overhead"], rate["low"], rate["high"]) == ("fail", 34.0, 32.0, 36.0)
    assert rate["cause"] == "possible cause: X=1 is set; to try: unset it"
    broken = next(line for line in lines if line["application"] == "Broken")
    assert (broken["result"], broken["reason"], "metric" in broken) == ("fail", "it hung", False)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**rate, "schema": 99}, schema)


def test_a_chat_reads_what_changed_and_why_with_a_link():
    text = push.message(outcome(changes=["bare moved since Monday"], problems=["disk full"]), "https://example.org/n")
    head, *lines, link = text.splitlines()
    assert head == "containercheck nightly on cluster: a regression (status 1)"
    failed = ["- GROMACS generic, 2 nodes: rate is 34 % <worse> than bare & more", "- Broken generic: it hung"]
    why = "- why, GROMACS generic, 2 nodes: possible cause: X=1 is set; to try: unset it"
    assert lines == ["- bare moved since Monday", *failed, why, "- disk full"]
    assert link == "https://example.org/n"
    assert push.message(outcome()).endswith("\n/reports/report.html")
    assert "34 % &lt;worse&gt; than bare &amp; more" in push.slack_text(text)
    assert push.mattermost_text(text).endswith("\n```\nhttps://example.org/n")


def test_a_chat_hears_nothing_of_a_fine_night_and_little_of_a_bad_one():
    assert push.message(outcome(CASES[2:3], status=0)) == ""
    assert push.message(outcome(CASES[2:3], status=0, changes=["better"]))
    lines = push.message(outcome(problems=["x" * 1000] * 50)).splitlines()
    assert len(lines) == push.MOST_LINES + 3
    assert max(map(len, lines)) == push.MOST_CHARACTERS + 2


def test_the_dashboard_shows_metrics_that_there_are():
    dashboard = json.loads((REPOSITORY / "ci/docs/grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = {name for text in expressions for name in re.findall(r"containercheck_(\w+)", text)}
    assert shown <= {*push.HELP}
    assert {"status", "verdict", "overhead", "baseline", "cases", "changes"} <= shown


# Sinks


class Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps each request, and answers with the status that its path names."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.requests.append((self.path, self.headers, body))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """Give an address, and the list of requests that came there."""
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    listening.requests = []
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_address[1]}", listening.requests
    listening.shutdown()
    listening.server_close()


def test_each_kind_of_sink_gets_the_results(tmp_path, server, monkeypatch, capsys):
    address, requests = server
    monkeypatch.setenv("TOKEN", "sesame")
    (tmp_path / "hook").write_text(f"{address}/200\n")
    declared = {
        "a": {"kind": "openmetrics", "path": str(tmp_path)},
        "b": {"kind": "jsonlines", "path": str(tmp_path / "lines")},
        "c": {"kind": "junit", "path": str(tmp_path / "junit.xml")},
        "d": {"kind": "httpjson", "url": f"{address}/200", "secret_variable": "TOKEN"},
        "e": {"kind": "slack", "secret_file": str(tmp_path / "hook")},
        "f": {"kind": "mattermost", "secret_file": str(tmp_path / "hook")},
    }
    assert {entry["kind"] for entry in declared.values()} == {*sinks.KINDS}
    for _ in range(2):
        push.send(sinks.declared(declared), outcome())
    assert capsys.readouterr().out == ""
    assert "containercheck_verdict" in (tmp_path / "containercheck-cluster-nightly.prom").read_text()
    assert (tmp_path / "lines").read_text() == 2 * push.json_lines(outcome())
    assert "GROMACS" in (tmp_path / "junit.xml").read_text()
    lines = [(headers, body) for _, headers, body in requests if headers["Content-Type"] == "application/x-ndjson"]
    assert lines[0][0]["Authorization"] == "Bearer sesame"
    assert lines[0][1] == push.json_lines(outcome())
    texts = [json.loads(body)["text"] for _, headers, body in requests if "Authorization" not in headers]
    assert len(texts) == 4
    assert all("it hung" in text for text in texts)


def test_a_dead_sink_costs_seconds_and_one_line_without_its_address(tmp_path, server, monkeypatch, capsys):
    """One takes no connection, one never answers, others refuse; the last one gets its results all the same."""
    monkeypatch.setattr(push, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
        other.close()
        addresses = {
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}/secret",
            "closed": f"http://127.0.0.1:{closed}/secret",
            "refuses": f"{server[0]}/403",
            "redirects": f"{server[0]}/302",
            "wrong": "htp:/secret",
            "nonsense": "http://[secret/x",
        }
        for name, address in addresses.items():
            (tmp_path / name).write_text(address)
        chosen = [Sink(name, "slack", secret_file=str(tmp_path / name)) for name in addresses]
        chosen += [Sink("gone", "slack", secret_file=str(tmp_path / "none"))]
        chosen += [Sink("unset", "slack", secret_variable="CONTAINERCHECK_NO_SUCH_VARIABLE")]
        chosen += [Sink("nowhere", "openmetrics", path=str(tmp_path / "none"))]
        chosen += [Sink("fine", "jsonlines", path=str(tmp_path / "lines"))]
        started = time.monotonic()
        push.send(chosen, outcome())
        assert time.monotonic() - started < 60
    lines = dict(
        re.fullmatch(r"run: the sink (\w+) did not get the results: (.*)", line).groups()
        for line in capsys.readouterr().out.splitlines()
    )
    assert {*lines} == {sink.name for sink in chosen} - {"fine"}
    assert "secret" not in "".join(lines.values())
    assert "HTTP Error 403" in lines["refuses"]
    assert "HTTP Error 302" in lines["redirects"]
    assert "refused" in lines["closed"]
    assert lines["wrong"] == lines["nonsense"] == "a wrong address, or a server that does not speak HTTP"
    assert lines["unset"] == "the environment has no CONTAINERCHECK_NO_SUCH_VARIABLE"
    assert "No such file" in lines["gone"]
    assert "/200" not in [path for path, *_ in server[1]], "a redirect was followed"
    assert (tmp_path / "lines").exists()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "/x"}, "needs the key 'kind'"),
        ({"kind": "openmetrics"}, "needs the key 'path'"),
        ({"kind": "httpjson"}, "needs the key 'url'"),
        ({"kind": "slack"}, "the address of a webhook is a secret"),
        ({"kind": "slack", "url": "https://a/b", "secret_file": "x"}, "the address of a webhook is a secret"),
        ({"kind": "httpjson", "url": "https://me:word@a/b"}, "'url' has a user or a query"),
        ({"kind": "httpjson", "url": "https://a/b?token=1"}, "'url' has a user or a query"),
        ({"kind": "junit", "path": "x", "commands": ["runs"]}, "no results of 'runs'"),
        ({"kind": "slak", "secret_file": "x"}, "must be one of openmetrics"),
        ({"kind": "slack", "secretfile": "x"}, "did you mean 'secret_file'"),
    ],
)
def test_a_wrong_sink_is_an_error_of_the_site_file(entry, message):
    with pytest.raises((ValueError, SiteError), match=re.escape(message)):
        sinks.declared({"team": entry})


def test_the_sinks_of_all_partitions_count_once_and_get_what_they_ask_for():
    night, runs = {"kind": "junit", "path": "a"}, {"kind": "junit", "path": "b", "commands": ["run", "nightly"]}
    partitions = [{"extras": {"containercheck": {"sinks": {"night": night, "runs": runs}}}}] * 2
    system = {"name": "cluster", "partitions": [*partitions, {"name": "plain"}]}
    assert [sink.name for sink in sinks.of_system(system, "nightly")] == ["night", "runs"]
    assert [sink.name for sink in sinks.of_system(system, "run")] == ["runs"]


@pytest.mark.parametrize("fault", [None, RuntimeError("broken")])
def test_a_night_is_sent_even_if_a_fault_ended_it(tmp_path, monkeypatch, capsys, fault):
    extras = {"containercheck": {"sinks": {"lines": {"kind": "jsonlines", "path": str(tmp_path / "lines")}}}}
    configured = Configuration({"name": "s", "partitions": [{"extras": extras}]}, tmp_path, None, tmp_path, (), ())
    monkeypatch.setattr(reframe_process, "configuration", lambda *_: configured)
    result = nightly.Result("tonight", CASES, fault=fault)
    nightly.announce(result, nightly.asked([]), Workplace(tmp_path, report_file=tmp_path / "report.json"))
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert {line["status"] for line in lines} == {result.status}
    extras["containercheck"]["sinks"]["lines"]["pth"] = "x"
    nightly.announce(result, nightly.asked([]), Workplace(tmp_path, report_file=tmp_path / "report.json"))
    assert "no sink got the results: containercheck: sinks: lines: unknown 'pth'" in capsys.readouterr().out
