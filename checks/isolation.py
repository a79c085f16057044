"""Start two containers on a node, and record which parts of each other they see.

D12.5 sections 2.1 and 4: Singularity separates the file system only. /dev/shm and /tmp are the host's, and all
containers of a node see them. DLB and MPI's shared memory need this, and users must know it. Processes, user and cgroup
are the host's too. CHPCE names the security aspects: a container gives its user no capabilities, and images are mounted
without setuid programs and devices. Whether new privileges are excluded, and the filter of system calls, is recorded.

Here two containers start on a node; the first leaves files, and the second looks for them. If the site's configuration
isolates more, MPI between containers of a node is slower or fails, and this check shows the reason.
"""

import reframe as rfm
from containercheck import Answer, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_before

#: Parts that a container shares with others on its node, by runtime; a container of Docker shares none.
SHARED = {"dev_shm": "yes", "tmp": "yes", "processes": "yes", "cgroup": "same"}
OWN = {"dev_shm": "no", "tmp": "no", "processes": "no", "cgroup": "other"}
#: CHPCE, "Security aspects and limitations".
PROTECTED = {"setuid": "no", "devices": "no", "image": "readonly"}
EXPECTED = {"Apptainer": {**SHARED, **PROTECTED}, "Singularity": {**SHARED, **PROTECTED}, "Docker": OWN}


@rfm.simple_test
class Isolation(SingleNodeCheck):
    """Answers only: it takes seconds."""

    descr = "isolation between two containers of a node"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "sh"
    recipe = "debian"
    smoke_test = True
    rounds = 1
    run_limit = 120
    # Assumed: a start takes less than a second.
    work = Work("containers", min_amount=2, fixed_seconds=2)

    @run_before("run")
    def start_two(self):
        """Let the project's program start the container twice, and set the expected answers of the second one."""
        self.started_by = f"{self.python} {self.own('isolation/isolation.py')} --"
        for side in self.sides():
            if self.contained and not side.container:
                continue
            expected = EXPECTED.get(side.container.runtime.name, {}) if side.container else SHARED
            self.answers = [
                *self.answers,
                Answer("user", r"^shares user (\w+)", equals="same", side=side.name),
                Answer("more_capabilities", r"^shares more_capabilities (\d+)", at_most=0, side=side.name),
                *(
                    Answer(name, rf"^shares {name} (\w+)", equals=word, side=side.name)
                    for name, word in expected.items()
                ),
            ]
