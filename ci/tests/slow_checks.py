"""Checks that are slow, wrong or endless as test_sessions.py wants it, which copies this file."""

import logging
import time
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from containercheck import reframe_internals
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function, variable

reframe_internals.listen(lambda testcase: "")
#: Where the copy's directory lies.
DIRECTORY = Path(__file__).resolve().parents[1]


class Base(rfm.RunOnlyRegressionTest):
    """Reports the next number of its file each time it is run, and should report 1."""

    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["bare"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    results = variable(list, value=[], loggable=True)
    expected = variable(dict, value={"ranks": 1, "expected": 360, "at_most": 3600}, loggable=True)
    note = variable(str, value="none")
    node_hours = variable(float, int, value=0, loggable=True)
    #: Seconds that its job is said to have had its node; 0 for what ReFrame says.
    job_seconds = variable(float, int, value=0, loggable=True)
    numbers = variable(str, value="1")
    executable = "sh"

    @run_before("run")
    def count(self):
        """Take the first number, and leave the last."""
        file = f"{DIRECTORY}/{self.unique_name}.$RFM_PARTITION"
        self.env_vars["RFM_PARTITION"] = self.current_partition.name
        script = f"[ -e {file} ] || echo {self.numbers} >{file}; read n rest <{file}; echo rate $n {self.note}; "
        self.executable_opts = ["-c", f"'{script} echo ${{rest:-$n}} >{file}'"]

    @sanity_function
    def ran(self):
        """Numbers above 5 are wrong."""
        rate = sn.extractsingle(r"rate (\d+)", self.stdout, 1, int)
        return sn.all([sn.assert_le(rate, 5, "wrong answer"), sn.assert_found(self.note, self.stdout)])

    @performance_function("x")
    def rate(self):
        """Return the number."""
        return sn.extractsingle(r"rate (\d+)", self.stdout, 1, float)

    @run_before("performance")
    def judge(self):
        """Note the row."""
        self.reference = {"*": {"rate": (1, -0.1, 0.1, "x")}}
        # ReFrame runs this hook once more, dry, after a failure in sanity.
        if not self.is_dry_run():
            self.results = [{"metric": "rate", "unit": "x", "baseline": 1.0, "baseline_label": "bare"}]


@rfm.simple_test
class Fine(Base):
    numbers = "1"


@rfm.simple_test
class Good(Base):
    numbers = "1"


@rfm.simple_test
class Dear(Base):
    expected = {"ranks": 1, "expected": 7200, "at_most": 36000}


@rfm.simple_test
class Overruns(Base):
    """Takes far more than it is expected to, as only a job without a time limit can."""

    job_seconds = 3000


@rfm.simple_test
class Slow(Base):
    numbers = "2 1"


@rfm.simple_test
class Wrong(Base):
    numbers = "9 1"


@rfm.simple_test
class Endless(Base):
    @run_before("run")
    def stay(self):
        """Ignore what asks it to end."""
        self.executable_opts = ["-c", "'trap \"\" TERM INT HUP; while :; do echo alive; sleep 0.123; done'"]


class SlowHandler(logging.Handler):
    """Takes its time for a line, and loses each Exception that comes meanwhile, as all of Python's handlers do."""

    def emit(self, record):
        """Tell the test that a line is being written."""
        try:
            (DIRECTORY / "writing").touch()
            time.sleep(60)
        except Exception:
            self.handleError(record)


@rfm.simple_test
class Logs(Endless):
    @run_before("run")
    def log(self):
        """Write a line."""
        SlowHandler().handle(logging.LogRecord("made", logging.INFO, "", 0, "a line", (), None))
