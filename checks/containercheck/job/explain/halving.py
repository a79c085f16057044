"""Find the cause of a failure that no rule explains: take half of all differences back, and halve the half that helps.

The differences are those of the environment, of the start of the container, and of limits. Groups of them become
remedies. If a group helps, both halves are next, until one difference remains, or several that act together
(delta debugging: Zeller and Hildebrandt, IEEE TSE 28, 2002). A remedy with these then proves it, as for a rule.

Standard library only, Python 3.6 or newer.
"""

import re
from typing import Callable, Dict, Iterator, List, Mapping, Sequence

from containercheck.job import variables
from containercheck.job.container_runtimes import METADATA, RUNTIMES
from containercheck.job.contract import MEASURED
from containercheck.job.explain.causes import (
    AND,
    HIDE,
    LIMIT,
    OF_RANK,
    SET,
    SEVERAL,
    UNSET,
    Cause,
    Change,
    rule_of_variable,
)
from containercheck.job.explain.observations import Observation
from containercheck.job.explain.rules import HIDDEN, of_variable
from containercheck.job.launch import ULIMITS

#: Rule of the causes that halving finds, their source, and most of them that may act together.
RULE, SOURCE, TOGETHER = "halving", "found by halving all differences", 3
#: Variables that shells and runtimes give each container, and those of launchers: values of another start are wrong.
_OF_STARTS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|PS1|PROMPT_COMMAND|TERM|HOME|HOSTNAME|USER_PATH|CONTAINERCHECK_.*"
    r"|(PMIX|PMI|PMI2|OMPI|OPAL|PRTE|SLURM|HYDRA|MPI|MPIR|ORTE|FLUX|PALS|SLURMD)_.*"
)
#: Variables that are lists of places: programs search them in order.
_PATHS = re.compile(r"\w*PATH|\w*DIRS|LD_PRELOAD")
#: Directories of programs in any image.
_STANDARD = re.compile(r"/(usr/)?(local/)?s?bin/?")
#: Variables of runtimes that change no container, after the beginning of their names.
_OF_STORAGE = re.compile(
    r"CACHEDIR|TMPDIR|CONFIGDIR|\w+_(USERNAME|PASSWORD|HOST)|LIBRARY.*|REMOTE.*|SILENT|DEBUG|VERBOSE|NAME"
)
#: Variables of a job that set MPI's transports and start: bare accepts them, but the container's MPI may not.
_OF_MPI = re.compile(r"(OMPI|PMIX|PRTE)_MCA_(?!gds$)\w+|(UCX|FI|PSM2|PSM3|MPICH|I_MPI|MPIR_CVAR)_\w+")
_SETTINGS = tuple(runtime.settings for runtime in RUNTIMES if runtime.settings)
_BEGINNINGS = tuple(start for each in _SETTINGS for start in (each, f"{each.rstrip('_')}ENV_"))


def differences(
    bare: Observation, container: Observation, job: Mapping[str, str], ends: bool = False
) -> List[List[Cause]]:
    """Return the reversible differences of a container from bare, by kind; each cause has its change.

    :param job: variables of the job: some of them set how a runtime starts containers.
    :param ends: whether runs end badly: then variables that bare accepts may be the cause too.
    """
    kinds = [
        [*_variables(bare, container), *_entries(bare, container)],
        [*_of_job(container, job, ends)],
        [*_limits(bare, container)],
    ]
    return [kind for kind in kinds if kind]


def _variables(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield each variable that only one of both has, or with another value."""
    for name in sorted({*bare.environment, *container.environment}):
        inside, host = container.environment.get(name), bare.environment.get(name)
        of_start = name.startswith(_SETTINGS) or OF_RANK.search(name)
        if inside == host or of_start or (_OF_STARTS.fullmatch(name) and not rule_of_variable(name)):
            continue
        is_list = inside is not None and _PATHS.fullmatch(name) and not inside.startswith(HIDDEN)
        if not is_list and re.fullmatch(r"\w+", name):
            difference, remedy, change = of_variable(name, bare, container)
            if change and not (change.kind == SET and "\n" in change.value):
                yield _cause(name, difference, remedy, change)


def _entries(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield each place in the container's search paths that is neither bare's nor an image's usual one."""
    for name, value in sorted(container.environment.items()):
        if not _PATHS.fullmatch(name) or value.startswith(HIDDEN) or name.startswith(_SETTINGS):
            continue
        places, usual = value.split(":"), bare.environment.get(name, "").split(":")
        for place in dict.fromkeys(places):
            if place in usual or _STANDARD.fullmatch(place) or place.startswith(f"/{METADATA}") or not place:
                continue
            rest = ":".join(each for each in places if each != place)
            change = Change(SET, f"{name}={rest}") if rest else Change(UNSET, name)
            order = "first" if place == places[0] else "a place"
            by = f", set by {container.set_by[name]}" if name in container.set_by else ""
            sentence = f"{place} is {order} in {name} in the container{by}, and not on the host"
            yield _cause(f"{name} {place}", sentence, f"take {place} out of {name}, or find its source", change)


def _of_job(container: Observation, job: Mapping[str, str], ends: bool) -> Iterator[Cause]:
    """Yield each variable of the job that sets how the runtime starts containers, and, if runs end, those of MPI."""
    # Other causes take these back, as variables of the container.
    known = {container.set_by.get(name) for name in container.environment}
    remedy = "unset it in the environment of jobs: a module, a profile or the site's file sets it"
    for name in sorted(job):
        rest = next((name[len(start) :] for start in _BEGINNINGS if name.startswith(start)), "")
        of_runtime = rest and not _OF_STORAGE.fullmatch(rest) and name not in known
        if of_runtime or (ends and _OF_MPI.fullmatch(name)):
            sentence = f"{name}={variables.redacted(name, job[name], b'')} is set for the job"
            yield _cause(name, sentence, remedy, Change(HIDE, name))


def _limits(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield each soft limit that is another one in the container."""
    for name in ULIMITS:
        inside, host = container.limits.get(name, ""), bare.limits.get(name, "")
        if inside and host and inside != host:
            sentence = f"the limit of {name[len('Max ') :]} is {inside} in the container, {host} on the host"
            remedy = "start containers without a change of this limit (ulimit)"
            yield _cause(name, sentence, remedy, Change(LIMIT, f"{name}={host}"))


def _cause(about: str, sentence: str, remedy: str, change: Change) -> Cause:
    return Cause(RULE, about, sentence, remedy, SOURCE, MEASURED, 50, change=change)


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
    about, sentence, remedy = (
        word.join(dict.fromkeys(getattr(cause, name) for cause in causes))
        for name, word in (("about", " and "), ("sentence", ", and "), ("remedy", "; "))
    )
    return _cause(about, sentence, remedy, Change(SEVERAL, lines) if len(changes) > 1 else changes[0])


#: Tries groups of differences, each taken back at once; returns which of them help.
Helps = Callable[[List[List[Cause]]], List[bool]]


def culprits(kinds: Sequence[List[Cause]], helps: Helps) -> List[Cause]:
    """Return the fewest differences that have to be taken back together; empty if all together do not help.

    :param kinds: differences by kind: a difference that spoils the container if it is taken back affects only its kind.
    """
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
