"""A change to a container that takes a difference away, and how many runs prove that it was the cause.

Standard library only, Python 3.6 or newer.
"""

from typing import NamedTuple

#: Kinds of experiments: a variable removed or set in the container, an option of the runtime, a directory of the host
#: bound, the image unpacked, processors allowed, a limit set, words before the program, the node's GPUs handed in.
UNSET, SET, OPTION, BIND, UNPACK, CPUS = "unset", "set", "option", "bind", "unpack", "cpus"
LIMIT, PREFIX, GPUS = "limit", "prefix", "gpus"
#: And two that change how ranks start: a variable of the job hidden from the runtime, another PMI plugin of srun.
HIDE, PLUGIN = "hide", "plugin"
#: Stands between several variables that are set.
AND = "\n"
#: Runs of a remedy that must end well, and runs of the container that must end badly or hang: all of them, and those
#: before the first remedy. Where each run ends badly by chance, with any probability, one of nine remedies is proven in
#: less than one of a hundred jobs (ci/tests/unit/test_start_ranks.py).
ENDING_WELL, ENDED, ENDED_BEFORE = 5, 3, 2
#: Most remedies that are tried beside a confirmation.
MOST = 3


class Experiment(NamedTuple):
    """A change to a container.

    :ivar kind: one of the kinds above.
    :ivar value: the name of a variable, ``name=value`` (several with :data:`AND` between them), options of the runtime,
        a path, a list of processors, ``name=value`` of a soft limit in the words of /proc, or words.
    """

    kind: str
    value: str = ""

    @property
    def label(self) -> str:
        """The change in words, to follow "with" in a sentence."""
        return {
            UNSET: f"{self.value} removed",
            SET: self.value.replace(AND, " and "),
            OPTION: f"the runtime's option {self.value}",
            BIND: f"{self.value} of the host bound",
            UNPACK: "the image unpacked into a directory",
            CPUS: f"processors {self.value} allowed",
            LIMIT: "the limit of {} at {}".format(*self.value[len("Max ") :].split("=")) if self.kind == LIMIT else "",
            PREFIX: f"{self.value} before the program",
            GPUS: "the node's GPUs handed in",
            HIDE: f"{self.value} unset for the job",
            PLUGIN: f"srun's PMI plugin {self.value}",
        }[self.kind]
