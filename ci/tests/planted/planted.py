"""Checks with planted faults: what the tests of the gates run, in real sessions and real containers.

``-S fault=slow`` and so on choose what goes wrong in the container; the bare run is always right.
"""

from dataclasses import replace

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric
from reframe.core.builtins import parameter, run_before, variable


@rfm.simple_test
class Planted(ContainerCheck):
    """A serial program that says that it took half a second, or goes wrong."""

    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    fault = variable(str, value="none")
    #: Seconds that each run lasts; its own time is not what it says that it took.
    lasts = variable(str, value="")

    sourcesdir = "src"
    recipe = "mpi"
    executable = "sh"
    ranks_per_node = 1
    metrics = [Metric("time", r"^time (\S+)", "s", better="lower", duet=True)]
    answers = [Answer("sum", r"^sum (\d+)")]
    identity = [Identity("version", r"^version (\S+)"), Identity("instruction set", r"^version .* with (\S+)")]

    @run_before("run")
    def plant(self):
        """Tell the program."""
        self.executable_opts = ["work.sh", self.fault, *self.lasts.split()]


@rfm.simple_test
class Singletons(ContainerCheck):
    """Ping Pong whose ranks cannot see the launcher: the environment does not reach them in the container."""

    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "pingpong"
    source = "pingpong/pingpong.c"
    recipe = "pingpong"
    ranks_per_node = 2
    rank_count = Answer("ranks", r"^ranks (\d+)", reduce="first")
    smoke_test = True

    #: A clean environment is one without the launcher's.
    container_options = ["--cleanenv"]


@rfm.simple_test
class Crowded(Singletons):
    """Ping Pong whose ranks are all bound to one core in the container."""

    container_options = []
    executable_opts = ["2"]
    env_vars = {"APPTAINERENV_OMPI_MCA_mpi_yield_when_idle": "1"}

    def sides(self):
        """Bind them by what stands between launcher and runtime."""
        bare, subject = super().sides()
        launcher = replace(subject.launcher, words=f"{subject.launcher.words} taskset -c 0")
        return [bare, replace(subject, launcher=launcher)]


@rfm.simple_test
class NoSoftware(ContainerCheck):
    """A program that no host has."""

    num_nodes = parameter([1], loggable=True)
    executable = "no-such-program"
    debian = ["no-such-package"]
    smoke_test = True
    recipe = "mpi"
