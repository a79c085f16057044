"""Checks whose verdicts need rounds that cost nothing here, as test_open.py wants it, which copies this file.

They have the variables of an application check that ci/run sets and reads, and no clock.
"""

import json
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError

#: Where the copy's directory lies.
DIRECTORY = Path(__file__).resolve().parents[1]


class Base(rfm.RunOnlyRegressionTest):
    """Has as many rounds as its seconds allow, and passes once it has as many as it needs."""

    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    seconds = variable(float, int, value=60.0)
    rounds = variable(int, value=0)
    earlier = variable(str, value="")
    results = variable(list, value=[], loggable=True)
    measured = variable(list, value=[], loggable=True)
    notes = variable(list, value=[], loggable=True)
    application_seconds = variable(float, int, value=0.0, loggable=True)
    mark = variable(str, value="none", loggable=True)
    #: What a dry run says of the job; nothing where nobody knows.
    expected = variable(dict, value={}, loggable=True)
    executable = "true"

    #: Rounds in all that close the verdict, and what the forecast says (the same, if it is right).
    needed = variable(int, value=0)
    forecast = variable(int, type(None), value=None)
    #: Seconds that a round is said to take.
    each = variable(float, value=5.0)

    skip_reason = variable(str, value="", loggable=True)

    @run_after("setup")
    def lack(self):
        """Skip with the reason that a test wrote into a file, if it did."""
        reason = DIRECTORY / f"{type(self).__name__}.lacks"
        if reason.exists():
            self.skip_reason = reason.read_text()
            self.skip(self.skip_reason)

    @sanity_function
    def ran(self):
        """Go on from the earlier rounds."""
        known = []
        if self.earlier:
            runs = json.loads(Path(self.earlier).read_text())["runs"]
            this = (self.current_partition.name, self.unique_name)
            *_, known = [
                case["measured"]
                for run in runs
                for case in run["testcases"]
                if (case["partition"], case["unique_name"]) == this and case["measured"]
            ]
        more = self.rounds or max(1, int(self.seconds / self.each))
        self.measured = [*known, *({"seconds": self.seconds} for _ in range(more))]
        self.application_seconds = self.each * more
        return True

    @run_before("performance")
    def judge(self):
        """Note the row."""
        done = len(self.measured) >= self.needed
        row = {"metric": "rate", "unit": "x", "baseline": 1.0, "baseline_label": "bare", "subject": 1.0}
        row.update({"subject_label": "generic", "overhead": 0.0, "interval": 1.0, "overhead_unit": "%", "spread": 3.0})
        row.update({"verdict": "pass" if done else "inconclusive", "rounds": len(self.measured)})
        row.update({"rounds_needed": None if done else self.forecast, "round_seconds": self.each})
        self.results = [row]


@rfm.simple_test
class Quick(Base):
    """Closes in the first pass."""

    needed = forecast = 1


@rfm.simple_test
class Soon(Base):
    """Needs two more rounds."""

    needed = forecast = 4


@rfm.simple_test
class Known(Base):
    """Needs two more rounds, and a job is known to take two minutes."""

    needed = forecast = 14
    expected = {"expected": 120.0}


@rfm.simple_test
class Late(Base):
    """Needs eight more."""

    needed = forecast = 10


@rfm.simple_test
class Long(Base):
    """Needs more than there is time for."""

    needed = forecast = 40


@rfm.simple_test
class Never(Base):
    """Is beyond reach."""

    needed, each = 1000, 1.0


@rfm.simple_test
class Stubborn(Base):
    """Stays open, whatever its forecast says."""

    needed, forecast = 1000, 4


@rfm.simple_test
class Elsewhere(Base):
    """Closes in the first run on one partition, and needs two more rounds on the other."""

    needed = forecast = 4

    @run_after("setup")
    def close_here(self):
        """Need a single round."""
        if self.current_partition.name == "one":
            self.needed = 1


@rfm.simple_test
class Worsens(Base):
    """Is slow when it goes on."""

    needed = forecast = 4

    @run_before("performance", always_last=True)
    def fail(self):
        """Fail where there are earlier rounds."""
        if self.earlier:
            raise PerformanceError("rate is worse")


@rfm.simple_test
class Waits(Base):
    """Stays for long when it goes on."""

    needed = forecast = 4

    @run_before("run")
    def stay(self):
        """Say so, and sleep."""
        if self.earlier:
            self.executable, self.executable_opts = "sh", ["-c", "'echo alive; exec sleep 1000'"]
