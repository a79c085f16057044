"""Jobs that are played: runs are made up, and take no time but that of a clock which they move on."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from conftest import BARE, GENERIC, facts_of, run_of
from containercheck import Metric
from containercheck.job import confirmation, remedies, rounds, runner
from containercheck.job.outputs.facts import Facts
from containercheck.job.rounds import conclude

TIME = Metric("time", r"^time (\S+)", "s", better="lower")
#: Somebody else, as a run's record names it.
STRESS = "stress-ng (pid 4711): 48 %"
#: What a job knows of a container that it can change.
CONTAINER = {"image": "image.sif", "bind": "-B{source}:{target}", "gpus": "--nv", "unpacks": True, "tree": "tree"}


class Job:
    """A job in the working directory, whose clock goes on when runs say so.

    :ivar values: of each side its metric, or its metrics by name; the same in every round, or what a function says.
    :ivar fresh: the same for the rounds that confirm; None for the same values.
    :ivar seconds: what a run takes.
    :ivar disturbed: numbers of rounds that somebody disturbs.
    :ivar faults: of round and side, what is wrong with its run.
    :ivar takes: of a side, what its runs take; one that would exceed its limit is ended there.
    :ivar evaluation: of all rounds.
    :ivar confirmation: the second phase.
    """

    def __init__(self, values, metrics=(TIME,), sides=(BARE, GENERIC), **facts):
        self.values, self.fresh = values, None
        self.metrics, self.facts = metrics, facts_of(metrics, sides=sides, **facts)
        self.seconds, self.disturbed, self.faults = 1.0, (), {}
        self.takes = {}
        self.now, self.limits = 0.0, []

    def run_once(self, script, output, limit, collect, local_ranks):
        """Write what the run prints."""
        number, side = int(output.name.split("-")[0]), output.name.split("-")[1]
        output.mkdir(parents=True)
        values = self.values(number) if callable(self.values) else self.values
        value = values[side.replace(confirmation.TIMED, "")]
        by_name = value if isinstance(value, dict) else {metric.name: value for metric in self.metrics}
        (output / "out").write_text("".join(f"{name} {value!r}\n" for name, value in by_name.items()))
        (output / "err").write_text("")
        self.limits.append((number, side, limit))
        wanted = self.takes.get(side, self.seconds)
        seconds = min(limit, wanted) if side in self.takes else wanted
        self.now += seconds
        late = {"timed_out": True, "status": None} if seconds < wanted else {}
        who = STRESS if number in self.disturbed and side == "subject" else ""
        facts = {"seconds": seconds, "disturbed_by": who, "bound": [], **late, **self.faults.get((number, side), {})}
        return run_of(side, str(output), number, **facts)

    def play(self, monkeypatch, *words, confirms=False):
        """Run all rounds; return the record.

        :param confirms: whether the second phase follows; the record then has a verdict.
        """
        sides = {
            side["name"]: {"commands": {"run": "x", "unpack": "touch {{tree}}/file"}, "container": CONTAINER}
            for side in self.facts["sides"]
        }
        Path("commands.json").write_text(json.dumps(sides))
        monkeypatch.setattr(runner, "run_once", self.run_once)
        for module in (rounds, runner, confirmation, remedies):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        arguments = rounds.parse([*(words or ["--seconds=1000"]), "--limit=600", "--local-ranks=0"])
        facts = Facts(self.facts)
        started = runner.Runner(arguments, facts, self.now)
        first = rounds.Rounds(arguments, facts, started)
        self.evaluation = first.evaluation
        number = first.run()
        self.confirmation = confirmation.Confirmation(arguments, facts, started, first, {})
        if confirms:
            self.values = self.fresh or self.values
            try:
                self.confirmation.run(number)
            finally:
                self.record = SimpleNamespace(**started.record)
                conclude(started.record, facts, self.evaluation, self.confirmation)
                self.record = SimpleNamespace(**started.record)
        return SimpleNamespace(**started.record)
