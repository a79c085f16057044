"""A real node exporter and a real Prometheus read what a night sends, and answer all queries of the dashboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest
from conftest import REPOSITORY, eventually
from containercheck.report import push
from containercheck.site.sinks import Sink
from test_sinks import outcome
from users import ALICE, open_directory, words_as

EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    not (EXPORTER and PROMETHEUS), reason="no Prometheus here (Debian: prometheus, prometheus-node-exporter)"
)
DASHBOARD = json.loads((REPOSITORY / "ci/docs/grafana.json").read_text())
CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: node, static_configs: [{{targets: ["{}"]}}]}}]
"""


def free_address():
    """Return an address on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def asked():
    """Send the results of two commands, and return a function that asks Prometheus, with its path and parameters."""
    # Their servers have accounts of their own, and a person's files may be closed to others.
    other = words_as(ALICE) if os.geteuid() == 0 else []
    collected, address = free_address(), free_address()
    with open_directory() as place:
        (place / "collected").mkdir(0o755)
        (place / "data").mkdir()
        (place / "data").chmod(0o777)
        (place / "prometheus.yml").write_text(CONFIGURATION.format(collected))
        before = os.umask(0o077)
        push.send([Sink("prometheus", "openmetrics", path=str(place / "collected"))], outcome(changes=["bare moved"]))
        os.umask(before)
        textfile = ["--collector.textfile", f"--collector.textfile.directory={place / 'collected'}"]
        commands = [
            [EXPORTER, f"--web.listen-address={collected}", "--collector.disable-defaults", *textfile],
            [PROMETHEUS, f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}"],
        ]
        commands[1].append(f"--web.listen-address={address}")
        servers = [subprocess.Popen([*other, *words], stderr=subprocess.DEVNULL, cwd=place) for words in commands]

        def ask(path, **parameters):
            words = urllib.parse.urlencode(parameters, doseq=True)
            try:
                with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{words}", timeout=30) as answer:
                    return json.load(answer)["data"]
            except OSError:
                return {"result": []}

        try:
            assert eventually(lambda: ask("query", query="node_textfile_scrape_error")["result"], of=servers[1])
            yield ask
        finally:
            for server in servers:
                server.terminate()
                server.wait(60)


def test_all_queries_of_the_dashboard_have_an_answer(asked):
    (error,) = asked("query", query="node_textfile_scrape_error")["result"]
    assert error["value"][1] == "0"
    (ended,) = asked("query", query="time() - containercheck_end_timestamp_seconds")["result"]
    assert 0 <= float(ended["value"][1]) < 600
    chosen = {}
    for variable in DASHBOARD["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()
        # As Grafana writes the choice of all values.
        chosen[variable["name"]] = f"({'|'.join(asked(f'label/{label}/values', **{'match[]': metric}))})"
    assert chosen == {"system": "(cluster)", "command": "(nightly)", "application": "(GROMACS|HPCC)"}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            query = re.sub(r"\$(\w+)", lambda match: chosen[match[1]], target["expr"])
            series = asked("query", query=query)["result"]
            assert series, f"{panel['title']}: {query}"
            wanted = {*re.findall(r"{{(\w+)}}", target["legendFormat"])}
            assert wanted <= {label for each in series for label in each["metric"]}, panel["title"]
