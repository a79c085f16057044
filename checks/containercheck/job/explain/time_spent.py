"""Name the uses of a slow container's extra time: by the stages of a run, processor time, and counters of processors.

Standard library only, Python 3.6 or newer.
"""

import re
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple

from containercheck.job import texts
from containercheck.job.container_runtimes import METADATA
from containercheck.job.explain.observations import Use
from containercheck.job.texts import number, size

#: Least part of bare's time by which runs are longer, and least part of this extra time that a line names.
MUCH_LONGER, LARGE_PART = 0.1, 0.03
#: Events that a line names if a run has this many more of them in each second that it takes longer; and their words.
_EVENTS: Sequence[Tuple[str, float, Callable[[float], str]]] = (
    ("read", 8 << 20, lambda more: f"{size(more)} more read from disks"),
    ("faults", 50000, lambda more: f"{more:.0f} more page faults"),
    ("major_faults", 200, lambda more: f"{more:.0f} more page faults that read a file"),
)
#: Parts of bare's instructions, of its instructions per cycle, and of its frequency from which on a line names them.
MANY_INSTRUCTIONS, FEW_PER_CYCLE, LOW_FREQUENCY = 1.2, 0.8, 0.9
#: Words before a program that print the times of the stages of its run on one line: scripts of the image's environment,
#: the loader, and Python run once more before the program, each by itself.
STAGES = f"""sh -c '
now() {{ read -r now _ </proc/uptime; times="$times $now"; }}
read -r times </proc/sys/kernel/random/boot_id; now
(for script in /{METADATA}/env/*.sh; do . "$script"; done) >/dev/null 2>&1; now
for program; do case $program in env | *=*) ;; *) break ;; esac; done
program=$(command -v "$program"); read -r line <"$program" 2>/dev/null
for loader in /lib*/ld-linux*; do "$loader" --list "$program"; done >/dev/null 2>&1; now
case $line in "#!"*python*) program=${{line#??}} ;; *) case $program in */python*) ;; *) program= ;; esac ;; esac
[ -z "$program" ] || $program -c "" >/dev/null 2>&1; now
"$@"; status=$?; now
printf "\\ncontainercheck: stages %s\\n" "$times" >&2
exit $status' sh"""


class Stages(NamedTuple):
    """Hold the seconds of the stages of a run, on the job's first node."""

    start: float = 0.0
    scripts: float = 0.0
    loader: float = 0.0
    interpreter: float = 0.0
    program: float = 0.0
    end: float = 0.0

    @classmethod
    def read(cls, printed: str, began: float, ended: float) -> "Stages":
        """Return the stages in the output of a run with :data:`STAGES`, each for all steps; zeros if there are none.

        The last rank of a step counts.

        :param began, ended: times of the run by the node's uptime.
        """
        boot = texts.small(Path("/proc/sys/kernel/random/boot_id"))
        found = re.findall(rf"^containercheck: stages {boot}((?: [\d.]+){{5}})$", printed, re.M)
        steps: List[List[float]] = []
        for *row, end in sorted([*map(float, words.split())] for words in found):
            if steps and row[0] <= steps[-1][4]:
                end = max(end, steps.pop()[4])
            steps.append([*row, end])
        stages = cls()
        for begins, scripts, loaded, ready, end in steps:
            again = scripts - begins, loaded - scripts, ready - loaded
            # The parts that ran once more belong to the start, or to the program.
            parts = begins - began - again[0], *again, end - ready - again[1] - again[2], 0.0
            stages = cls(*(known + max(0.0, part) for known, part in zip(stages, parts)))
            began = end
        return stages._replace(end=max(0.0, ended - began)) if steps else stages


#: The stages in words, in their order.
_STAGES = (
    "launcher and runtime take",
    "scripts of the image's environment take",
    "the loader takes",
    "the interpreter's start takes",
    "the program takes",
    "the container's end takes",
)


def time_line(bare: Use, container: Use, cores: int, stages: Tuple[Stages, Stages] = (Stages(), Stages())) -> str:
    """Return the use of a slower container's extra time, in one line; empty if its runs take as long as bare's.

    :param cores: processors that a side has on the first node.
    :param stages: of a run of both, bare first; zeros if they are not known.
    """
    longer = container.seconds - bare.seconds
    if longer < MUCH_LONGER * bare.seconds or not bare.seconds:
        return ""
    user, system, helping, disk = (
        (getattr(container, name) - getattr(bare, name)) / cores for name in ("user", "system", "helpers", "disk")
    )
    parts = [
        (user, "computing"),
        (system, "in the kernel"),
        (helping, "in the runtime's helpers"),
        (disk, "waiting for disks"),
        (longer - user - system - helping - disk, "waiting"),
    ]
    # Very short runs are hardly observed.
    is_known = bare.user and container.user
    listed = [f"{number(part, 2)} {word}" for part, word in sorted(parts, reverse=True) if part > LARGE_PART * longer]
    said = [f"of {number(longer, 2)} s more, {', '.join(listed)}"] if is_known else []
    by_stage = sorted(zip((inside - host for host, inside in zip(*stages)), _STAGES, *stages), reverse=True)
    said += [
        f"{words} {number(inside, 2)} s, {number(host, 2)} s on the host"
        for more, words, host, inside in by_stage
        if all(map(any, stages)) and more > LARGE_PART * longer
    ]
    said += _by_counters(bare, container)
    events = ((getattr(container, name) - getattr(bare, name), least, words) for name, least, words in _EVENTS)
    said += [words(more) for more, least, words in events if more > least * longer]
    taken = f"a run takes {number(container.seconds, 3)} s, {number(bare.seconds, 3)} s on the host"
    return "where the time went: " + "; ".join([taken, *said])


def _by_counters(bare: Use, container: Use) -> Iterator[str]:
    """Yield the differences in the counters of the processors, in words; none if a side has no counters."""
    if not all((side.instructions and side.cycles and side.user) for side in (bare, container)):
        return
    more = container.instructions / bare.instructions
    if more > MANY_INSTRUCTIONS:
        yield f"{number(more, 2)} times the instructions: other code, or ranks that wait busily"
    speed = (container.instructions / container.cycles) / (bare.instructions / bare.cycles)
    if speed < FEW_PER_CYCLE:
        yield f"{number(speed, 2)} times the instructions per cycle: memory or the processor holds the code up"
    inside, host = (side.cycles / side.user / 1e9 for side in (container, bare))
    if inside < LOW_FREQUENCY * host:
        yield f"the processors run at {number(inside, 2)} GHz, {number(host, 2)} GHz on the host: a lower frequency"
