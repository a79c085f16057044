"""Checks whose overheads are as the tests of nights want them; places.py copies this file."""

import random
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError

#: Where the copy's directory lies.
DIRECTORY = Path(__file__).resolve().parents[1]


class Base(rfm.RunOnlyRegressionTest):
    """Reports the next overhead of its file each time it is run, in percent; the first ones where the file ends."""

    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    results = variable(list, value=[], loggable=True)
    measured = variable(list, value=[], loggable=True)
    provenance = variable(dict, value={}, loggable=True)
    expected = variable(dict, value={"ranks": 1, "amount": 1, "expected": 360, "at_most": 3600}, loggable=True)
    rounds = variable(int, value=0, loggable=True)
    seconds = variable(float, int, value=60)
    node_hours = variable(float, int, value=0)
    executable = "sh"

    skip_reason = variable(str, value="", loggable=True)

    @run_after("setup")
    def lack(self):
        """Skip with the reason that a test wrote into a file, if it did."""
        reason = DIRECTORY / f"{type(self).__name__}.lacks"
        if reason.exists():
            self.skip_reason = reason.read_text()
            self.skip(self.skip_reason)

    @run_before("run")
    def next_line(self):
        """Take the next line of the file: overhead, bare, and the runtime's version."""
        file = f"{DIRECTORY}/{type(self).__name__}"
        script = (
            f"n=$(cat {file}.runs 2>/dev/null || echo 1); sed -n ${{n}}p {file}.lines; echo $((n + 1)) >{file}.runs"
        )
        self.executable_opts = ["-c", f"'{script}'"]

    @sanity_function
    def ran(self):
        """A line that is not there is wrong."""
        return sn.assert_found(r"^overhead \S+ bare \S+ runtime", self.stdout)

    @performance_function("x")
    def rate(self):
        """Return the bare value."""
        return sn.extractsingle(r"bare (\S+)", self.stdout, 1, float)

    @run_before("performance")
    def fill_in(self):
        """Make the row of a comparison."""
        if self.is_dry_run():
            return
        _, overhead, _, bare, _, version = Path(self.stagedir, "rfm_job.out").read_text().split()
        overhead, bare = float(overhead), float(bare)
        self.provenance = {"runtimes": {"subject": {"command": "apptainer", "version": version}}}
        self.results = [self.row(f"rate{number}", overhead, bare) for number in range(1, 6)]
        if overhead >= 10:
            raise PerformanceError("too slow")

    def row(self, metric, overhead, bare):
        """Return the row of a metric, which differs from the others as real ones do."""
        dice = random.Random(f"{metric} {overhead} {bare}")
        overhead, bare = dice.gauss(overhead, 0.3), dice.gauss(bare, 0.003 * bare)
        row = {"metric": metric, "unit": "s", "better": "lower", "baseline": bare, "baseline_label": "bare"}
        row.update(baseline_error=0.003 * bare, rounds=self.rounds or 8, spread=1.0, accepted=[None, 10.0])
        compared = {"subject": bare * (1 + overhead / 100), "subject_label": "generic", "overhead": overhead}
        return {**row, **compared, "overhead_unit": "%", "verdict": "pass" if overhead < 10 else "fail"}


@rfm.simple_test
class Steady(Base):
    """What never moves."""


@rfm.simple_test
class Moving(Base):
    """What moves."""


@rfm.simple_test
class Other(Base):
    """What never moves either."""
