"""Find the cause of a failure that no rule explains: take half of all differences back, and halve the half that helps.

The differences are all causes with a change (rules.py), and the parts of the container's start: variables of the job,
options, a script around the runtime. Groups of them become remedies. If a group helps, both halves are next, until one
difference remains, or several that act together (delta debugging: Zeller and Hildebrandt, IEEE TSE 28, 2002). A remedy
with these then proves it, as for a rule.

Standard library only, Python 3.6 or newer.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from containercheck.job import variables
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.explain.causes import (
    AND,
    DIRECT,
    GPUS,
    HIDE,
    RULES,
    SCRIPT,
    SET,
    SEVERAL,
    UNPACK,
    UNSET,
    WITHOUT,
    Cause,
    Change,
)
from containercheck.job.explain.explanation import differences
from containercheck.job.explain.observations import Observation
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.experiments import Remedy
from containercheck.job.outputs.facts import Facts
from containercheck.job.remedies import SPARE, Remedies

#: Most differences that may act together.
TOGETHER = 3
#: Its least seconds, and its longest duration as a multiple of the rounds'. Then rounds of a step. Last, the ratio of
#: overhead to spread that these rounds need to show that half of the overhead is gone.
LEAST, LONGER, ROUNDS_OF_STEP, LARGE = 180.0, 2.0, 2, 4.0
#: Changes that take long to make; rules try them if they can matter.
_NOT_HALVED = (UNPACK, GPUS)
#: Variables of runtimes that change no container, after the beginning of their names.
_OF_STORAGE = re.compile(
    r"CACHEDIR|TMPDIR|CONFIGDIR|\w+_(USERNAME|PASSWORD|HOST)|LIBRARY.*|REMOTE.*|SILENT|DEBUG|VERBOSE|NAME"
)
#: Variables of a job that set MPI's transports and start: bare accepts them, but the container's MPI may not.
_OF_MPI = re.compile(r"(OMPI|PMIX|PRTE)_MCA_(?!gds$)\w+|(UCX|FI|PSM2|PSM3|MPICH|I_MPI|MPIR_CVAR)_\w+")
_BEGINNINGS = tuple(
    start
    for runtime in RUNTIMES
    if runtime.settings
    for start in (runtime.settings, f"{runtime.settings.rstrip('_')}ENV_")
)
#: Options that set a variable, which is taken back by itself.
_OF_VARIABLES = re.compile(r"--env\b|-e\b")
#: Bytes of a script that are read.
_READ = 1 << 16


def kinds_of(
    bare: Observation,
    container: Observation,
    job: Mapping[str, str],
    start: Mapping[str, Any],
    ends: bool = False,
    in_vain: Sequence[Optional[Change]] = (),
) -> List[List[Cause]]:
    """Return the differences of a container from bare that can be taken back, by kind.

    :param job: variables of the job: some of them set how a runtime starts containers.
    :param start: facts about the container's start (:attr:`Launch.container`).
    :param ends: whether runs end badly: then variables that bare accepts may be the cause too.
    :param in_vain: changes that were tried and do not help.
    """
    kinds: Dict[Any, List[Cause]] = {}
    found = [*differences(bare, container), *_of_job(container, job, ends), *_options(start), *_wrapper(start)]
    for cause in found:
        if cause.change and cause.change.kind not in _NOT_HALVED and cause.change not in in_vain:
            # Without one of its options, the container may not start.
            kind = cause.change if cause.change.kind == WITHOUT else cause.change.kind
            kinds.setdefault(SET if kind == UNSET else kind, []).append(cause)
    return [*kinds.values()]


def _of_job(container: Observation, job: Mapping[str, str], ends: bool) -> Iterator[Cause]:
    """Yield each variable of the job that sets how the runtime starts containers, and, if runs end, those of MPI."""
    # Other causes take these back, as variables of the container.
    known = {by for name, by in container.set_by.items() if name.split()[0] in container.environment}
    for name in sorted(job):
        rest = next((name[len(start) :] for start in _BEGINNINGS if name.startswith(start)), "")
        of_runtime = rest and not _OF_STORAGE.fullmatch(rest) and name not in known
        if of_runtime or (ends and _OF_MPI.fullmatch(name)):
            setting = f"{name}={variables.redacted(name, job[name], b'')}" if variables.is_public(name) else name
            yield RULES["start: variable"].cause(Change(HIDE, name), name=name, setting=setting)


def _options(start: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield each option that the site or the check gives to the runtime, with its value."""
    options = re.findall(r"(?<!\S)-.*?(?=\s-|$)", " ".join(start.get("options", ())))
    for option in dict.fromkeys(options):
        if not _OF_VARIABLES.match(option) and not variables.SECRET.search(option):
            yield RULES["start: option"].cause(Change(WITHOUT, option), option=option)


def _wrapper(start: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the script that stands for the runtime, on the PATH or as its path, if the runtime itself is found."""
    found = shutil.which(start.get("command", ""))
    if not found:
        return
    command = os.path.basename(found)
    with open(found, "rb") as stream:
        text = stream.read(_READ).decode(errors="replace")
    if not text.startswith("#!"):
        return
    names = "|".join(re.escape(name) for name in (command, *(runtime.command for runtime in RUNTIMES)))
    named = re.findall(rf"/[\w./+-]+/(?:{names})(?![\w./-])", text)
    listed = [str(Path(place, command)) for place in os.environ.get("PATH", "").split(os.pathsep)]
    for path in (*named, *listed):
        if os.access(path, os.X_OK) and not os.path.samefile(path, found):
            yield RULES["start: script"].cause(Change(DIRECT, path), command=command, script=found, path=path)
            return


def together(causes: Sequence[Cause]) -> Cause:
    """Return causes as one; its change takes all of them back."""
    if len(causes) == 1:
        return causes[0]
    sets: Dict[str, List[str]] = {}
    changes = []
    for change in (part for cause in causes if cause.change for part in cause.change.parts):
        name, _, value = change.value.partition("=")
        if change.kind == SET and name in sets:
            # Several places are taken out of the same path.
            sets[name] = [place for place in sets[name] if place in value.split(":")]
        elif change.kind == SET:
            sets[name] = value.split(":")
        else:
            changes.append(change)
    changes += [Change(SET, f"{name}={':'.join(places)}") for name, places in sets.items()]
    lines = AND.join(f"{change.kind} {change.value}" for change in changes)
    words = {
        name: word.join(dict.fromkeys(getattr(cause, name) for cause in causes))
        for name, word in (("about", " and "), ("sentence", ", and "), ("remedy", "; "))
    }
    change = Change(SEVERAL, lines) if len(changes) > 1 else changes[0]
    # Rules may see such a difference for other reasons too.
    return RULES["several"].cause(change, **words)._replace(stays=True)


#: Tries groups of differences, each taken back at once; returns which of them help.
Helps = Callable[[List[List[Cause]]], List[bool]]


def culprits(kinds: Sequence[List[Cause]], helps: Helps) -> List[Cause]:
    """Return the fewest differences that have to be taken back together; empty if all together do not help.

    :param kinds: differences by kind: a difference that spoils the container if it is taken back affects only its kind.
    """
    # One variable of the job may change many in the container: the smallest kind is first, but a script, which may
    # change anything, is last.
    kinds = sorted(kinds, key=lambda kind: (any(cause.rule == SCRIPT for cause in kind), len(kind)))
    groups = [*kinds, *([[cause for kind in kinds for cause in kind]] if len(kinds) > 1 else [])]
    found = next((group for group, helped in zip(groups, helps(groups) if groups else ()) if helped), None)
    return _halve(found, [], helps) if found else []


def _halve(among: List[Cause], taken: List[Cause], helps: Helps) -> List[Cause]:
    """Return those of some differences that help, together with others that are taken back too.

    :param among: they help if all are taken back.
    :param taken: the others.
    """
    if len(among) == 1:
        return among
    halves = among[: len(among) // 2], among[len(among) // 2 :]
    for half, helped in zip(halves, helps([[*half, *taken] for half in halves])):
        if helped:
            return _halve(half, taken, helps)
    # Neither half is enough: each has a part of it.
    first, second = halves
    return [*_halve(first, [*taken, *second], helps), *_halve(second, [*taken, *first], helps)]


class HalvingEnded(Exception):
    """Report that there is no time for another step."""


class Halving(NamedTuple):
    """Halve the differences of a container, with runs of it and of remedies.

    :ivar name: of the container's side.
    :ivar kinds: see :func:`kinds_of`.
    :ivar remarks: lines for people; one more if nothing is found.
    """

    facts: Facts
    remedies: Remedies
    name: str
    kinds: List[List[Cause]]
    remarks: List[str]

    def in_rounds(self, metrics: Dict[str, float]) -> Optional[Cause]:
        """Return the differences that take away at least half of each overhead; None if there are none.

        :param metrics: the overhead of each slow metric.
        """
        return self._found(lambda groups: self._help_in_rounds(metrics, groups))

    def at_once(self, ends_well: Callable[[str], bool]) -> Optional[Cause]:
        """Return the differences without which a run ends well; None if there are none.

        :param ends_well: runs a side, or starts its ranks, and returns whether that ended well.
        """
        return self._found(lambda groups: self._help_at_once(ends_well, groups))

    def _found(self, helps: Helps) -> Optional[Cause]:
        count, label = sum(map(len, self.kinds)), self.facts.side(self.name).label
        try:
            found = culprits(self.kinds, helps)
        except HalvingEnded:
            self.remarks.append(f"{label}: the time was used up before one of {count} differences was found")
            return None
        if count and not found:
            what = f"differences in variables, limits and start ({count})"
            self.remarks.append(f"{label}: {what} were taken back in vain")
        return together(found) if 0 < len(found) <= TOGETHER else None

    def _group(self, group: Sequence[Cause]) -> str:
        """Make a remedy that takes several differences back; return its name."""
        change = together(group).change
        assert change
        name = self.remedies.make(self.name, change).name
        print(f"{name} is {self.name} with {len(group)} differences taken back", flush=True)
        return name

    def _help_in_rounds(self, metrics: Dict[str, float], groups: Sequence[Sequence[Cause]]) -> List[bool]:
        """Return the groups that help in each of two rounds of the container and the helpful remedies."""
        # All run once; usually one of them helps, and runs in the other rounds.
        runs = len(groups) + 1 + 2 * (ROUNDS_OF_STEP - 1)
        if runs * self.remedies.took([self.name]) * (1 + SPARE) > self.remedies.left:
            raise HalvingEnded
        made = [Remedy(self._group(group), self.name, metrics) for group in groups]
        step = Evaluation(self.facts.of_sides([self.name]), Path(), made, ())
        for number in range(1, ROUNDS_OF_STEP + 1):
            self.remedies.round(step, [self.name])
            step.experiments.drop_useless(number)
        return [remedy.name not in step.experiments.failed for remedy in made]

    def _help_at_once(self, ends_well: Callable[[str], bool], groups: Sequence[Sequence[Cause]]) -> List[bool]:
        """Return for each group whether a run ends well without it; after the first success, none runs."""
        helped: List[bool] = []
        for group in groups:
            if not self.remedies.has_time(self.name):
                raise HalvingEnded
            self.remedies.number += 1
            helped.append(not any(helped) and ends_well(self._group(group)))
        return helped
