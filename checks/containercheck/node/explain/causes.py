"""A difference between a container and bare that can cost time or end a run, as rules yield it."""

from typing import NamedTuple, Optional, Tuple

from containercheck.node.contract import MEASURED
from containercheck.node.explain.remedies import Experiment

#: Kinds of figures, by what they measure.
COMPUTING, MEMORY, MESSAGES, NETWORK, FILES, START = MEASURED
#: Kinds that messages between ranks can slow, and that processors can.
MPI, CORES = (MESSAGES, NETWORK), (COMPUTING, MEMORY)
#: Remedy for an image that is read through FUSE.
UNPACKING = "unpack the image into a directory, or have the runtime installed so that the kernel mounts it (setuid)"
#: Remedies for limits of a cgroup, on processor time and on memory.
MORE_TIME = "raise the quota of whatever starts the container, such as the engine's --cpus or a service's CPUQuota"
MORE_MEMORY = "raise it for what starts the container: the engine's --memory, or a service's MemoryMax"
#: Families of MPI.
OPEN_MPI, MPICH = "Open MPI", "MPICH's family"
#: Rules on what a program may find too little of, whatever it measures: it then ends, or waits for it.
ENDING = ("limit", "memory limit", "shared memory", "device")
#: Rules on what slows nothing, and ends a run where it is used up or missing.
ONLY_ENDING = ("space",)


class Cause(NamedTuple):
    """A difference between a container and bare that can cost time or end a run.

    :ivar rule: name of the rule.
    :ivar about: what differs: the name of a variable, a limit or a setting, or a path; with ``rule`` it identifies the
        cause.
    :ivar sentence: what differs.
    :ivar remedy: what a person can do.
    :ivar source: where it was seen.
    :ivar kinds: the kinds of figures that it can slow.
    :ivar weight: how likely it is the cause where it is there; from 0 to 100.
    :ivar narrow: whether it explains only figures that are declared to be of its kinds, and no application as a whole.
    :ivar experiment: the change that takes the difference away; None where there is none.
    :ivar family: the family of MPI that it concerns; empty for any. It explains nothing where both sides have another.
    :ivar of_use: whether it is about what the runs used, and not about what both sides saw before them.
    :ivar stays: whether the difference is still there with the remedy, which goes round it.
    :ivar devices: beginnings of the paths of the devices without which it explains nothing: the node needs one of them.
    :ivar side: label of the container, where a job has several; else empty.
    """

    rule: str
    about: str
    sentence: str
    remedy: str
    source: str
    kinds: Tuple[str, ...]
    weight: int
    narrow: bool = False
    experiment: Optional[Experiment] = None
    family: str = ""
    devices: Tuple[str, ...] = ()
    side: str = ""
    of_use: bool = False
    stays: bool = False

    def ends_runs(self, ranks: int) -> bool:
        """Return whether it can also end a run, or keep it waiting: what MPI does, or what a program needs.

        :param ranks: of the application: one talks to nobody.
        """
        if self.rule in ONLY_ENDING:
            return True
        return not self.narrow and (self.rule in ENDING or (ranks > 1 and bool({*self.kinds} & {*MPI})))
