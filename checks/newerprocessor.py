"""Start a program for a newer processor than the node has: it must end at once, with the reason.

D12.6 section 4.5: an image that was built on new processors "simply doesn't run on older CPUs". Here this is expected.
The program has one instruction that the node's processor lacks, and starts bare and in the container. Both must end by
the signal for an illegal instruction, which other checks then name as their reason. The check finds a runtime that
hides the signal, or that silently starts programs by an emulator.
"""

import shlex

import reframe as rfm
from containercheck import ARCHITECTURES, Answer, SingleNodeCheck, Work
from reframe.core.builtins import parameter, run_after


@rfm.simple_test
class NewerProcessor(SingleNodeCheck):
    """Answers only: it takes seconds."""

    descr = "a program for a newer processor ends with its reason"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "sh"
    recipe = "debian"
    smoke_test = True
    rounds = 1
    run_limit = 120
    # Assumed: a start takes less than a second.
    work = Work("programs", min_amount=1, fixed_seconds=2)
    answers = [
        # 128 plus the number of SIGILL, a shell's exit status.
        Answer("exit_status", r"^status (\d+)", equals="132"),
        Answer("lacking", r"^lacking (\w+)", words=True),
    ]

    @run_after("setup")
    def start_program(self):
        """Let a program write the test program, and start it in the shell; skip if no instruction is known."""
        known = ARCHITECTURES.get(self.site.architecture or "")
        if known is None:
            self.skip_because("no instruction is known of the partition's architecture: name it, processor, arch")
            return
        words = [f"--elf={known.elf}", f"--end={known.end.hex()}"]
        words += [f"--instruction={name}={code.hex()}" for name, code in known.instructions]
        self.started_by = f"{self.python} {self.own('newerprocessor/newerprocessor.py')} {shlex.join(words)} --"
