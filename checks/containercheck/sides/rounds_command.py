"""Return the command that runs all sides in rounds; without side effects."""

from __future__ import annotations

from dataclasses import dataclass

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site

#: Default of ``quiet``, the same as of the program in the job.
QUIET = 2.0


@dataclass(frozen=True)
class RoundsOptions:
    """How the sides are run.

    :ivar amount: number of rounds, whatever the verdict; 0 to let the verdict decide.
    :ivar seconds: for all rounds.
    :ivar limit: seconds that one run may take.
    :ivar local_ranks: ranks of MPI on a node, the only ones that the runner can inspect; 0 without MPI.
    :ivar collect: files that every run writes.
    :ivar prepare: seconds that the script which makes the input may take; 0 where there is none.
    :ivar keep_awake: whether the processors of a virtual machine are kept busy.
    :ivar quiet: seconds without disturbance that the first round waits for.
    """

    amount: int
    seconds: float
    limit: float
    local_ranks: int
    collect: tuple[str, ...]
    prepare: float
    keep_awake: bool
    quiet: float = QUIET

    def command(self, site: Site) -> str:
        """Return the command that runs all sides in rounds."""
        words = [f"--rounds={self.amount}" if self.amount else f"--seconds={self.seconds:g}", f"--limit={self.limit:g}"]
        words += [f"--local-ranks={self.local_ranks}", *(f"--collect={name}" for name in self.collect)]
        words += [f"--prepare={contract.PREPARE}", f"--prepare-limit={self.prepare:g}"] if self.prepare else []
        words += [f"--quiet={self.quiet:g}"] * (self.quiet != QUIET)
        words += ["--keep-awake"] * self.keep_awake + ["--alone"] * (not site.locks_machine)
        return node_commands.in_job(site, "rounds", *words)
