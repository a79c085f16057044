"""Send the results of a session or night to the sinks of the site, and wait at most seconds for an answer.

ReFrame's ``httpjson`` handler is not used: it waits for its server without a limit, and its errors fail tests.
"""

from __future__ import annotations

import collections
import http.client
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from containercheck.results import exported, selections, states
from containercheck.results.cases import Case, short_name
from containercheck.results.formatting import first_line, say, write_file
from containercheck.results.row import FAIL, OPEN, PASS, Row, is_finite
from containercheck.session import reframe_process
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError
from containercheck.site import sinks
from containercheck.site.extras import SiteError
from containercheck.site.sinks import Sink

#: Longest silence of a server.
SECONDS = 10.0
#: Most lines of a message in a chat, and characters of each.
MOST_LINES, MOST_CHARACTERS = 12, 300
#: Numbers of the verdicts, as in the exit statuses.
VERDICTS = {PASS: 0, FAIL: 1, OPEN: 2}
#: Prefix of all metrics, and their help texts. ``ci/docs/grafana.json`` shows them.
PREFIX = "containercheck_"
HELP: Mapping[str, str] = {
    "end_timestamp_seconds": "End of the last session of the command.",
    "status": "Its exit status: 0 fine, 1 a regression or failure, 2 something was not judged.",
    "cases": "Number of its cases, by outcome.",
    "changes": "Number of metrics that changed since earlier nights.",
    "baseline": "Median of the baseline, in the unit of the metric.",
    "overhead": "By how much the subject is worse than the baseline.",
    "overhead_low": "Lower end of the interval of the overhead.",
    "overhead_high": "Upper end of the interval of the overhead.",
    "overhead_accepted": "Highest accepted overhead.",
    "verdict": "Verdict on the metric: 0 pass, 1 fail, 2 open.",
}


@dataclass(frozen=True)
class Outcome:
    """The end of a session or night.

    :ivar command: command that ran it: ``run``, ``nightly``, ``acceptance``.
    :ivar status: exit status of the command.
    :ivar meaning: meaning of the status in words.
    :ivar cases: all cases.
    :ivar report: the page of a night, or the report of another session.
    :ivar changes: sentences on the changes since earlier nights.
    :ivar problems: other things that could not be measured or run.
    :ivar system: name of the system.
    """

    command: str
    status: int
    meaning: str
    cases: Sequence[Case]
    report: Path
    changes: Sequence[str] = ()
    problems: Sequence[str] = ()
    system: str = ""


def announce(arguments: Sequence[str], place: Workplace, outcome: Outcome) -> None:
    """Send the results to the sinks of the site, and print a line for each sink that does not accept them.

    :param arguments: the session's arguments for ReFrame: they select the site file and the system.
    """
    try:
        system = reframe_process.configuration(arguments, place).system
        chosen = sinks.of_system(system, outcome.command)
    except (ReframeFailed, UsageError, SiteError, ValueError) as error:
        say(f"no sink got the results: {error}")
        return
    send(chosen, replace(outcome, system=system["name"]))


def send(chosen: Sequence[Sink], outcome: Outcome) -> None:
    """Send the results to these sinks; print a line for each sink that does not accept them in time."""
    for sink in chosen:
        try:
            _SENDERS[sink.kind](sink, outcome)
        except OSError as error:
            # It includes urllib's errors for an answer of the server, such as "HTTP Error 403: Forbidden".
            say(f"the sink {sink.name} did not get the results: {error}")
        except (ValueError, http.client.HTTPException):
            # The message would contain the address, which may be a secret.
            say(f"the sink {sink.name} did not get the results: a wrong address, or a server that does not speak HTTP")


# Metrics of Prometheus


def metrics(outcome: Outcome) -> str:
    """Return the results in the text format of Prometheus, which is OpenMetrics too."""
    text = []
    families: dict[str, dict[str, float]] = {name: {} for name in HELP}
    for name, labels, value in _samples(outcome):
        shown = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels.items())
        families[name][shown] = value
    for name, samples in families.items():
        text += [f"# HELP {PREFIX}{name} {HELP[name]}", f"# TYPE {PREFIX}{name} gauge"]
        text += [f"{PREFIX}{name}{{{labels}}} {value!r}" for labels, value in samples.items()]
    return "\n".join([*text, "# EOF", ""])


def _samples(outcome: Outcome) -> Iterator[tuple[str, dict[str, object], float]]:
    """Yield name, labels and value of each sample."""
    session: dict[str, object] = {"command": outcome.command, "system": outcome.system}
    yield "end_timestamp_seconds", session, time.time()
    yield "status", session, float(outcome.status)
    yield "changes", session, float(len(outcome.changes))
    run = selections.ran(outcome.cases)
    counts = collections.Counter(states.state_of(case).shown.lower().strip("?") for case in run)
    counts["skipped"] = len(outcome.cases) - len(run)
    for state, count in counts.items():
        yield "cases", {**session, "outcome": state}, float(count)
    for case in run:
        axes = ",".join(f"{name}={value}" for name, value in case.axes.items())
        place = {"partition": case.partition, "environ": case.key[2], "application": case.application}
        labels = {**session, **place, "variant": case.variant, "nodes": case.nodes, "axes": axes}
        for row in case.rows:
            yield from _of_row(row, {**labels, "metric": row.metric})


def _of_row(row: Row, labels: dict[str, object]) -> Iterator[tuple[str, dict[str, object], float]]:
    values: dict[str, object] = {}
    if row.is_comparison:
        labels = {**labels, "subject": row.subject_label, "baseline": row.baseline_label}
        values = {"overhead": row.overhead, "overhead_low": row.low, "overhead_high": row.high}
        values["overhead_accepted"] = row.accepted[1]
    for name, value in values.items():
        if is_finite(value):
            yield name, {**labels, "unit": row.overhead_unit}, float(value)
    if row.verdict in VERDICTS:
        yield "verdict", labels, float(VERDICTS[row.verdict])
    if is_finite(row.baseline):
        yield "baseline", {**labels, "unit": row.unit}, float(row.baseline)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _write_metrics(sink: Sink, outcome: Outcome) -> None:
    # The collector reads only files that end in .prom, and write_file writes to a file with another ending first.
    path = sink.file / f"containercheck-{outcome.system}-{outcome.command}.prom"
    write_file(path, metrics(outcome))
    # The exporter has its own account.
    path.chmod(0o644)


# JSON, and JUnit


def json_lines(outcome: Outcome) -> str:
    """Return a line of JSON for each metric: see results/exported.py."""
    session = {"command": outcome.command, "status": outcome.status}
    return exported.text_of({**session, **line} for line in exported.lines(outcome.cases))


def _append_lines(sink: Sink, outcome: Outcome) -> None:
    with sink.file.open("a", encoding="utf-8") as file:
        file.write(json_lines(outcome))


def _post_lines(sink: Sink, outcome: Outcome) -> None:
    token = sink.secret()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _post(sink.url or "", json_lines(outcome), {"Content-Type": "application/x-ndjson", **headers})


def _write_junit(sink: Sink, outcome: Outcome) -> None:
    exported.write_junit(sink.file, outcome.cases, outcome.changes, outcome.problems)


# Chats


def message(outcome: Outcome, link: str = "") -> str:
    """Return a message about changes, failures and their causes, with a link; empty if there are none."""
    failed = [(case, run) for case in outcome.cases if (run := selections.failure(case))]
    lines = [*outcome.changes]
    lines += [f"{short_name(case)}: {first_line(run.fail_reason)}" for case, run in failed]
    nodes = [(case, selections.nodes_of_failure(case)) for case, _ in failed]
    lines += [f"{short_name(case)} failed {where}" for case, where in nodes if where]
    lines += [f"why, {short_name(case)}: {cause}" for case, _ in failed if (cause := exported.cause_of(case))]
    lines += outcome.problems
    if not lines and outcome.status == 0:
        return ""
    left = len(lines) - MOST_LINES
    shown = [f"- {line[:MOST_CHARACTERS]}" for line in lines[:MOST_LINES]] + (
        [f"- and {left} more"] if left > 0 else []
    )
    head = f"containercheck {outcome.command} on {outcome.system}: {outcome.meaning} (status {outcome.status})"
    return "\n".join([head, *shown, link or str(outcome.report)])


def slack_text(text: str) -> str:
    """Return a message for Slack: three characters that begin links and entities are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mattermost_text(text: str) -> str:
    """Return a message for Mattermost: a block of text without Markdown, then the link."""
    lines, _, link = text.replace("```", "'''").rpartition("\n")
    return f"```\n{lines}\n```\n{link}"


def _post_message(formatted: Callable[[str], str]) -> Callable[[Sink, Outcome], None]:
    def post(sink: Sink, outcome: Outcome) -> None:
        text = message(outcome, sink.link or "")
        if text:
            _post(sink.secret(), json.dumps({"text": formatted(text)}), {"Content-Type": "application/json"})

    return post


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Returns a redirect as the server's answer: following it could send a token to another host."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirect is not followed."""


def _post(url: str, body: str, headers: Mapping[str, str]) -> None:
    """Send a body to a server by HTTP.

    :raises HTTPError, OSError, ValueError, HTTPException: the server cannot be reached, or does not accept the body.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("not HTTP")
    request = urllib.request.Request(url, body.encode(), {**headers, "User-Agent": "containercheck"})
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS):
        pass


#: The function that sends the results to each kind of sink.
_SENDERS: Mapping[str, Callable[[Sink, Outcome], None]] = {
    "openmetrics": _write_metrics,
    "jsonlines": _append_lines,
    "junit": _write_junit,
    "httpjson": _post_lines,
    "slack": _post_message(slack_text),
    "mattermost": _post_message(mattermost_text),
}
