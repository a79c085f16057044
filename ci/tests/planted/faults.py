"""All that can go wrong in a container, as cases of one check: one session of ReFrame runs them all.

A case is a line of a table: what goes wrong (an argument of src/work.sh), and the variables that are set for it.
"""

import reframe as rfm
from planted import NoSoftware, Planted
from reframe.core.builtins import parameter, run_after

#: Settings of the host's MPI, loader and Python, as modules make them.
HOST_SETTINGS = {
    "OMPI_MCA_btl_tcp_if_include": "eth7",
    "OPAL_PREFIX": "/opt/openmpi",
    "PRTE_MCA_plm": "ssh",
    "PMIX_MCA_psec": "native",
    "UCX_TLS": "rc",
    "FI_PROVIDER": "verbs",
    "I_MPI_FABRICS": "ofi",
    "MPICH_ASYNC_PROGRESS": "1",
    "LD_BIND_NOW": "1",
    "LD_LIBRARY_PATH": "/opt/openmpi/lib",
    "PYTHONPATH": "/opt/python",
}

#: Cases where nothing is said of the site.
FAULTS = {
    "equal": {},
    "slow": {"fault": "slow"},
    "four-rounds": {"rounds": 4},
    "wrong": {"fault": "wrong", "rounds": 5},
    "crash": {"fault": "crash", "rounds": 5},
    "hangs": {"fault": "hangs", "rounds": 5, "run_limit": 4},
    "hangs-once": {"fault": "hang", "rounds": 3, "run_limit": 4},
    "leaves": {"fault": "leaves", "rounds": 2},
    "unreadable": {"fault": "unreadable", "rounds": 1},
    "environment": {"fault": "environment", "rounds": 1, "env_vars": {**HOST_SETTINGS, "SITE_OWN": "stays"}},
    "unsupported": {"rounds": 1, "input_commands": ["echo error: no software: this one is too old >&2; exit 3"]},
}

#: Cases of a partition that is described in a site file of the test's own: variant, partition, and variables.
ON_SITE = {
    "tolerated": ("generic", "tolerant", {"fault": "slow", "rounds": 6}),
    "referenced": ("bare", "referenced", {}),
    "emulated-referenced": ("bare", "emulated", {}),
    "emulated-slow": ("generic", "emulated", {"fault": "slow"}),
    "emulated-wrong": ("generic", "emulated", {"fault": "wrong"}),
    "ready-image": ("generic", "ready", {"rounds": 1}),
    "no-image": ("generic", "no-image", {}),
    "no-path": ("bare", "no-path", {}),
    "no-input": ("bare", "no-input", {}),
    "no-runtime": ("generic", "no-runtime", {}),
    "no-program": ("generic", "no-program", {"rounds": 1}),
}


class _Case(Planted):
    """A case with its variables."""

    #: Nothing but the test itself runs beside it.
    quiet = 0.0

    def set_variables(self, variables):
        """Set what the case says; one that goes on from an earlier session runs as many rounds as it takes."""
        for name, value in variables.items():
            if name != "rounds" or not self.earlier:
                setattr(self, name, value)


@rfm.simple_test
class Fault(_Case):
    """What goes wrong in the container."""

    case = parameter(FAULTS, loggable=True)

    @run_after("init")
    def choose(self):
        """Set what the case says; bare, only a run without a fault is one of its own."""
        self.set_variables(FAULTS[self.case])
        if self.variant == "bare" and self.case != "equal":
            self.valid_systems = []


@rfm.simple_test
class OnSite(_Case):
    """What a site's file says."""

    variant = parameter(["bare", "generic"], loggable=True)
    case = parameter(ON_SITE, loggable=True)

    @run_after("init")
    def choose(self):
        """Set what the case says, on its partition only."""
        variant, partition, variables = ON_SITE[self.case]
        self.set_variables(variables)
        self.valid_systems = [f"here:{partition}"] if self.variant == variant else []


@rfm.simple_test
class NoModule(NoSoftware):
    """A program that no host has, and that a module should bring."""

    variant = parameter(["bare"], loggable=True)
    modules = ["planted"]
