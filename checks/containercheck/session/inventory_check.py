"""A check of ReFrame that prints the facts of a node of each partition; ``containercheck doctor`` runs it.

It does not check containers, and ``reframe -c checks/ -r`` does not find it in this directory.
"""

from __future__ import annotations

from typing import ClassVar

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function

from containercheck.session.inventories import ANSWER
from containercheck.sides import launchers
from containercheck.site import node_commands, schedulers
from containercheck.site.sites import Site


@rfm.simple_test
class Inventory(rfm.RunOnlyRegressionTest):
    """Runs job/inventory.py once on each partition, as all its environments have the same nodes."""

    descr = "Facts of a partition's nodes"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    time_limit = "5m"
    #: Partitions that were asked in this session.
    asked: ClassVar[set[str]] = set()

    @run_after("setup")
    def once(self):
        """Skip all environments of a partition but the first."""
        schedulers.leave_outer_job()
        name = self.current_partition.fullname
        self.skip_if(name in self.asked, "this partition is asked in another environment")
        self.asked.add(name)
        site = Site.of(self.current_partition)
        self.max_pending_time = site.max_pending_time or "30m"
        # All processors of a node, and not those of one task.
        self.exclusive_access = site.exclusive
        runtime = launchers.find_runtime(self.current_partition) if self.current_partition.container_runtime else None
        needs = launchers.runtime_needs(self.current_partition, runtime)
        self.modules += needs.modules
        for name, value in needs.variables.items():
            self.env_vars.setdefault(name, value)

    @run_before("run")
    def ask(self):
        """Run the program on the job's first node, without a launcher."""
        site = Site.of(self.current_partition)
        self.job.launcher = getlauncher("local")()
        self.prerun_cmds = list(node_commands.require_python(site))
        self.executable = node_commands.in_job(site, "inventory")
        self.executable_opts = [">", ANSWER]

    @sanity_function
    def answered(self):
        """Require an answer."""
        return sn.assert_found(r'^\{"host": ', ANSWER)
