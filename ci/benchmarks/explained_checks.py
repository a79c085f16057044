"""A check that is slow for causes planted in its container, which an explanation has to find, and to prove."""

import os
import shutil

import reframe as rfm
from containercheck import Answer, ContainerCheck, Metric
from planted_causes import FAULTS, WRAPPER, program
from reframe.core.builtins import parameter, run_after, run_before
from unlisted_causes import UNLISTED

EVERY = {**FAULTS, **UNLISTED}
#: Files of faults, in the stage directory.
FILES = {
    "home/.openmpi/mca-params.conf": "# of the host\nbtl_tcp_if_include = fab0\n",
    "otherhome/.other/settings": "precision = single\n",
    "otherhome/of-host": "",
    "shadow/seq": '#!/bin/sh\nexec /bin/seq "$@"\n',
    "hook.sh": "export HOOKED=yes\n",
    "filter.json": '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": '
    '[{"names": ["chmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO"}]}\n',
    "mca.conf": "btl = self,tcp\n",
    "count.sh": program(EVERY.values()),
}


@rfm.simple_test
class Explained(ContainerCheck):
    """A serial program that counts what slows it."""

    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    fault = parameter(EVERY, loggable=True)
    recipe = "mpi"
    executable = "sh"
    ranks_per_node = 1
    quiet = 0.0
    seconds = 30
    # A run takes less than a second; some faults make each run hang.
    run_limit = 20.0
    keep_awake = False
    answers = [Answer("sum", r"^sum (\d+)")]

    @run_after("init")
    def declare(self):
        """Declare the metric, by what it depends on."""
        measures = EVERY[self.fault].measures
        self.metrics = [Metric("count", r"^count (\d+)", "steps", better="lower", spread=2.0, measures=measures)]

    @run_before("run")
    def plant(self):
        """Write the program, and plant the fault."""
        fault, place = EVERY[self.fault], self.stagedir
        for name, text in {**FILES, "fault": self.fault}.items():
            os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
            with open(f"{place}/{name}", "w") as stream:
                stream.write(text)
        os.chmod(f"{place}/shadow/seq", 0o755)
        os.makedirs(f"{place}/programs")
        variables = {name: value.replace("PLACE", place) for name, value in fault.variables.items()}
        if fault.runtime:
            variables.update(REAL=shutil.which("apptainer"), PLACE=place, PATH=f"{place}/programs:$PATH")
            variables["GROUP"] = "/sys/fs/cgroup/cpu/containercheck-planted"
            variables["MEMORY_GROUP"] = "/sys/fs/cgroup/memory/containercheck-planted"
            with open(f"{place}/programs/apptainer", "w") as stream:
                stream.write(WRAPPER + fault.runtime + "\n")
            os.chmod(f"{place}/programs/apptainer", 0o755)
        self.env_vars = {**self.env_vars, **variables}
        self.container_options = [*self.container_options, *fault.options]
        self.executable_opts = ["count.sh"]
