"""Define the differences between a container and bare that can cost time or end a run, and the rules that name them.

Standard library only, Python 3.6 or newer. The texts of the rules are in ``rules.ini``.
"""

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from containercheck.job import texts
from containercheck.job.contract import MEASURED

#: Kinds of metrics, by the parts of the machine that they measure.
COMPUTING, MEMORY, MESSAGES, NETWORK, FILES, START = MEASURED
#: Kinds that messages between ranks can slow, and that processors can.
MPI, CORES = (MESSAGES, NETWORK), (COMPUTING, MEMORY)
#: Families of MPI.
OPEN_MPI, MPICH = "Open MPI", "MPICH's family"
#: Rules on resources that a program may lack or find different: it then ends, or waits. They apply to any metric.
ENDING = ("limit", "memory limit", "shared memory", "device", "attribute", "files over the image", "working directory")
#: Rules on resources that slow nothing: a run ends if they are used up or missing.
ONLY_ENDING = ("space", "low limit")
#: Rule on a script around the runtime.
SCRIPT = "script"

#: Kinds of changes: a variable removed or set in the container, an option of the runtime, a path of the host bound;
#: also the image unpacked, processors allowed, a limit set, words before the program, the node's GPUs handed in.
UNSET, SET, OPTION, BIND, UNPACK, CPUS = "unset", "set", "option", "bind", "unpack", "cpus"
LIMIT, PREFIX, GPUS = "limit", "prefix", "gpus"
#: And those that change the start: a variable of the job hidden from the runtime, an option left out, the runtime
#: started in place of a script around it, another PMI plugin of srun.
HIDE, WITHOUT, DIRECT, PLUGIN = "hide", "without", "direct", "plugin"
#: And several changes at once, each in a line: its kind, a blank, its value.
SEVERAL = "several"
#: Stands between several variables that are set, and between several changes.
AND = "\n"
#: Fewest runs of a remedy, which must all end well; fewest runs of the container, which must all end badly or hang; and
#: the fewest of these before the first remedy. Even if each run ends badly by chance, with any probability, less than
#: one job in a hundred falsely proves one of nine remedies (ci/tests/unit/test_start_ranks.py).
ENDING_WELL, ENDED, ENDED_BEFORE = 5, 3, 2
#: Most remedies that are tried with a confirmation.
MOST = 3


class Change(NamedTuple):
    """Describe a change to a container that takes a difference away: the container with it is a remedy.

    :ivar kind: one of the kinds above.
    :ivar value: depends on the kind: the name of a variable; ``name=value`` (several with :data:`AND` between them);
        options of the runtime; a path, or ``source:target``; a list of processors; ``name=value`` of a soft limit in
        the words of /proc; or words.
    """

    kind: str
    value: str = ""

    @property
    def parts(self) -> "List[Change]":
        """The changes that it consists of: itself, or several."""
        if self.kind != SEVERAL:
            return [self]
        return [Change(*line.split(" ", 1)) for line in self.value.split(AND)]

    @property
    def label(self) -> str:
        """The change in words, to follow "with" in a sentence."""
        if self.kind == SEVERAL:
            return " and ".join(part.label for part in self.parts)
        return {
            UNSET: f"{self.value} removed",
            SET: self.value.replace(AND, " and "),
            OPTION: f"the runtime's option {self.value}",
            BIND: f"{self.value} of the host bound",
            UNPACK: "the image unpacked into a directory",
            CPUS: f"processors {self.value} allowed",
            LIMIT: "the limit of {}".format(" at ".join(self.value[len("Max ") :].split("="))),
            PREFIX: f"{self.value} before the program",
            GPUS: "the node's GPUs handed in",
            HIDE: f"{self.value} unset for the job",
            WITHOUT: f"{self.value} left out",
            DIRECT: f"{self.value} started directly",
            PLUGIN: f"srun's PMI plugin {self.value}",
        }[self.kind]


class Cause(NamedTuple):
    """Describe a difference between a container and bare that can cost time or end a run.

    :ivar rule: name of the rule.
    :ivar about: the different thing: the name of a variable, a limit or a setting, or a path; with ``rule`` it
        identifies the cause.
    :ivar sentence: the difference, in a sentence.
    :ivar remedy: an action for a person.
    :ivar source: the report or manual that describes it.
    :ivar kinds: the kinds of metrics that it can slow.
    :ivar weight: how likely the difference is the cause if it exists; from 0, for one that is named only if it is
        proven (halving.py), to 100.
    :ivar narrow: whether it explains only metrics that are declared to be of its kinds, and no application as a whole.
    :ivar change: takes the difference away; None if no change can.
    :ivar family: the family of MPI that it concerns; empty for any. It explains nothing if both sides have another one.
    :ivar devices: beginnings of paths of devices: it explains nothing unless the node has one of them.
    :ivar side: label of the container, if a job has several; else empty.
    :ivar of_use: whether it concerns resources that the runs used, and not observations before the runs.
    :ivar stays: whether the difference remains with the change, because the change avoids its effect.
    """

    rule: str
    about: str
    sentence: str
    remedy: str
    source: str
    kinds: Tuple[str, ...]
    weight: int
    narrow: bool = False
    change: Optional[Change] = None
    family: str = ""
    devices: Tuple[str, ...] = ()
    side: str = ""
    of_use: bool = False
    stays: bool = False

    def ends_runs(self, ranks: int) -> bool:
        """Return whether it can also end a run, or keep it waiting, as an effect on MPI or on a need of the program.

        :param ranks: of the application: a single rank sends no messages.
        """
        if not self.weight:
            return False
        if self.rule in ONLY_ENDING:
            return True
        return not self.narrow and (self.rule in ENDING or (ranks > 1 and bool({*self.kinds} & {*MPI})))


class Rule:
    """Read a section of ``rules.ini``.

    :param title: of the section.
    :param fields: its fields, by name.
    """

    def __init__(self, title: str, fields: Mapping[str, str]) -> None:
        """Read the fields that every rule has."""
        self.title, self.fields = title, fields
        words = fields.get("slows", "").split()
        self.kinds: Tuple[str, ...] = MEASURED if words == ["all"] else tuple(words)
        self.weight = int(fields.get("weight", 0))

    def cause(self, change: Optional[Change] = None, **values: Any) -> Cause:
        """Return a cause.

        :param change: takes it away.
        :param values: for the words in braces; the names of fields stand for these.
        """
        words = {**self.fields, **values}
        about, sentence, remedy = (self.fields[name].format(**words) for name in ("about", "sentence", "remedy"))
        facts = (self.fields.get("rule", self.title), about, sentence, remedy, self.fields["source"])
        narrow, family = "narrow" in self.fields, self.fields.get("family", "")
        devices = tuple(self.fields.get("devices", "").split())
        return Cause(*facts, self.kinds, self.weight, narrow, change, family, devices)


def _read() -> Dict[str, Rule]:
    parser = texts.table(Path(__file__).with_name("rules.ini"))
    rules = {}
    for title in parser.sections():
        every = f"every {title.partition(':')[0]}"
        fields = {**(parser[every] if parser.has_section(every) else {}), **parser[title]}
        rules[title] = Rule(title, {name: value.replace("\n", "") for name, value in fields.items()})
    return rules


#: All rules, by their title.
RULES = _read()


def rules_of(kind: str) -> List[Tuple[str, Rule]]:
    """Return the rules of a kind, such as ``device``: the rest of their title, and the rule."""
    beginning = f"{kind}: "
    return [(title[len(beginning) :], rule) for title, rule in RULES.items() if title.startswith(beginning)]


#: Rules on variables, each with the pattern of their names.
VARIABLES = [(re.compile(rule.fields["names"]), rule) for _, rule in rules_of("variable")]
#: Variables that launchers give each rank by themselves: their values differ between any two, or slow nothing.
OF_RANK = re.compile(
    r"(RANK|_LOCALID|_NODEID|_PROCID|_PID|_NAMESPACE|_URI|_UUID|_PIN_INFO|_TASK|_STEP|VPID|JOBID|FD$|PORT$"
    r"|_CH3_INTERFACE_HOSTNAME$|^(PMIX|PRTE)_MCA_mca_base_component_show_load_errors$)",
    re.I,
)


def rule_of_variable(name: str) -> Optional[Rule]:
    """Return the rule on a variable; None for most."""
    return next((rule for names, rule in VARIABLES if names.fullmatch(name)), None)
