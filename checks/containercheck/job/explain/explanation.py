"""Explain a failure: rank the possible causes of the failed metrics, and state the results of experiments."""

import itertools
import re
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from containercheck.job.explain.causes import (
    AND,
    ENDED,
    ENDING_WELL,
    LIMIT,
    MPI,
    RULES,
    SCRIPT,
    SET,
    UNSET,
    Cause,
    Change,
)
from containercheck.job.explain.observations import Observation, Pair, Use, of_pair, pairs_of
from containercheck.job.explain.rules import RULES_OF_SIGHT, devices_below
from containercheck.job.explain.time_spent import Stages, time_line
from containercheck.job.explain.use_rules import RULES_OF_USE, families_of
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.experiments import Remedy
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import TIMES
from containercheck.job.stats.pairs import FAIL, PASS
from containercheck.job.texts import number
from containercheck.job.verdict import builds

#: Fields of a cause that only rank it, and are not stored.
_OF_RULES = ("weight", "narrow", "family", "devices", "change")
#: Most differences that a message names; and the message if there is none.
NAMED, UNSEEN = 3, "not explained: no difference that is known to cause this was seen"


def causes(
    bare: Optional[Observation],
    container: Optional[Observation],
    uses: Tuple[Use, Use],
    failed: Sequence[Any],
    ranks: int = 2,
    others: Sequence[Cause] = (),
) -> List[Cause]:
    """Return the differences that can explain the failed metrics, the likeliest first.

    :param bare, container: observations of both sides; None for an unknown one.
    :param uses: resources that the runs of both used, bare first.
    :param failed: the metrics that are too slow, each with ``measures``; none for a run that failed otherwise.
    :param ranks: of the application: with one rank, messages slow only metrics that declare it.
    :param others: causes that neither observations nor resources show.
    """
    found = [*_concerning(bare, container, uses), *others]
    scored = [(_explained(cause, failed, ranks) * cause.weight, cause) for cause in found]
    return [cause for score, cause in sorted(scored, key=lambda pair: -pair[0]) if score > 0]


def causes_of_end(
    bare: Optional[Observation], container: Optional[Observation], uses: Tuple[Use, Use], ranks: int = 2
) -> List[Cause]:
    """Return the differences that can end or hang runs of a container if those of bare end well; likeliest first.

    :param bare, container, uses, ranks: see :func:`causes`.
    """
    found = [cause for cause in _concerning(bare, container, uses) if cause.ends_runs(ranks)]
    return sorted(found, key=lambda cause: -cause.weight)


def _concerning(bare: Optional[Observation], container: Optional[Observation], uses: Tuple[Use, Use]) -> List[Cause]:
    """Return the differences, without those about an MPI or devices that the job does not have."""
    found = differences(bare, container) if bare and container else []
    found += _by_use(uses)
    # A setting for another MPI than the container's slows nothing. If the container loaded no MPI, bare's counts.
    families = families_of(uses[1:]) or families_of(uses)
    # A difference may show before the runs and during them.
    by_name: Dict[Tuple[str, str], Cause] = {}
    for cause in found:
        known = by_name.get((cause.rule, cause.about), cause)
        likelier = max(cause, known, key=lambda each: each.weight)
        by_name[cause.rule, cause.about] = likelier._replace(change=cause.change or known.change)
    return [cause for cause in by_name.values() if _concerns(cause, bare, families)]


def differences(bare: Observation, container: Observation) -> List[Cause]:
    """Return the causes on all nodes of the job; the sentence of one that only some nodes have names these."""
    compared = []
    found: Dict[Tuple[str, str], Tuple[Cause, Set[str]]] = {}
    for host in (container.host, *container.nodes):
        here, inside = bare.at(host) or (bare if host == container.host else None), container.at(host)
        if here and inside:
            compared.append(host)
            for cause in (cause for rule in RULES_OF_SIGHT for cause in rule(here, inside)):
                found.setdefault((cause.rule, cause.about), (cause, set()))[1].add(host)
    return [
        cause
        if len(hosts) == len(compared)
        else cause._replace(sentence=f"on {_named(sorted(hosts))}: {cause.sentence}")
        for cause, hosts in found.values()
    ]


def _by_use(uses: Tuple[Use, Use]) -> List[Cause]:
    return [cause._replace(of_use=True) for rule in RULES_OF_USE for cause in rule(*uses)]


def _named(hosts: Sequence[str]) -> str:
    """Return the first of some nodes, and how many more there are."""
    return hosts[0] + (f" and {len(hosts) - 1} more node(s)" if len(hosts) > 1 else "")


def _concerns(cause: Cause, bare: Optional[Observation], families: Set[str]) -> bool:
    """Return whether a cause is about an MPI that is loaded, if one is known, and about devices that the node has.

    :param families: of the MPI that is loaded.
    """
    if families and cause.family and cause.family not in families:
        return False
    return not cause.devices or (bare is not None and any(devices_below(bare, each) for each in cause.devices))


def _explained(cause: Cause, failed: Sequence[Any], ranks: int) -> float:
    """Return the part of the failed metrics that a cause can explain."""
    if not failed:
        return 0.0
    return sum(_explains(cause, metric, ranks) for metric in failed) / len(failed)


def _explains(cause: Cause, metric: Any, ranks: int) -> bool:
    if not metric.measures:
        return not cause.narrow and (ranks > 1 or bool({*cause.kinds} - {*MPI}))
    return bool({*cause.kinds} & {*metric.measures})


def stored(found: Iterable[Cause], tried: Sequence[Mapping[str, Any]] = ()) -> List[Dict[str, Any]]:
    """Return causes as the report has them, each once; those with tried remedies come first.

    :param tried: entries of the causes with tried remedies, each with its ``result``.
    """
    others = (entry(cause) for cause in found)
    return [*map(dict, tried), *(each for each in others if not any(_same(each, other) for other in tried))]


def entry(cause: Cause) -> Dict[str, Any]:
    """Return a cause as the report has it."""
    facts = {name: value for name, value in cause._asdict().items() if name not in _OF_RULES}
    if not cause.side:
        del facts["side"]
    return {**facts, "kinds": list(cause.kinds), "experiment": dict(cause.change._asdict()) if cause.change else None}


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return all((first.get(name) or "") == (second.get(name) or "") for name in ("rule", "about", "side"))


def took_effect(
    cause: Mapping[str, Any],
    bare: Optional[Observation],
    remedy: Optional[Observation],
    uses: Tuple[Use, Use] = (Use(), Use()),
) -> bool:
    """Return whether the container with the remedy no longer shows the difference: otherwise nothing was tried.

    For a remedy that avoids the effect of the difference, return only whether the change took place.

    :param bare, remedy: observations of bare and of the container with the remedy; None for an unknown one.
    :param uses: resources that the runs of both used.
    """
    if not bare or not remedy:
        return False
    change = Change(**cause["experiment"])
    if not all(_is_there(part, remedy) for part in change.parts):
        return False
    if change.kind == UNSET:
        return True
    if cause.get("of_use") and not uses[1].seconds:
        return False
    if cause.get("stays"):
        return True
    # A variable that the change set may differ from bare's: the change took effect.
    seen = [] if change.kind == SET else differences(bare, remedy)
    return not any(_same(found._asdict(), cause) for found in (*seen, *_by_use(uses)))


def _is_there(change: Change, remedy: Observation) -> bool:
    """Return whether a container with a remedy sees a variable or a limit as the change sets it."""
    name, _, value = change.value.partition("=")
    if change.kind == UNSET:
        return name not in remedy.environment
    if change.kind == LIMIT:
        return remedy.limits.get(name) == value
    if change.kind == SET:
        pairs = (setting.partition("=")[::2] for setting in change.value.split(AND))
        return all(remedy.environment.get(name) == value for name, value in pairs)
    return True


def is_proven(cause: Mapping[str, Any]) -> bool:
    """Return whether the container with the remedy is as fast as bare in all metrics that had failed.

    For failed runs: whether all runs with the remedy ended well, and all without it failed or hung.
    """
    if cause.get("ended"):
        failed, runs = cause["ended"]
        result = cause.get("result") or {}
        well = not result.get("failed") and result.get("took_effect") and result.get("ended_well", 0) >= ENDING_WELL
        return bool(well) and failed == runs >= ENDED
    metrics = (cause.get("result") or {}).get("metrics") or {}
    return bool(metrics) and all(metric["helps"] == FAIL and metric["rest"] == PASS for metric in metrics.values())


def helps(cause: Mapping[str, Any]) -> bool:
    """Return whether the remedy takes at least half of the overhead away in a metric that had failed."""
    metrics = (cause.get("result") or {}).get("metrics") or {}
    return any(metric["helps"] == FAIL for metric in metrics.values())


def lines(known: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return the lines of a failure's message that explain it, by container; empty if nothing is known."""
    by_side: Dict[str, List[Mapping[str, Any]]] = {}
    for cause in known:
        by_side.setdefault(cause.get("side") or "", []).append(cause)
    return [
        f"{side}: {line}" if side else line for side, causes in by_side.items() for line in _lines_of_container(causes)
    ]


def summary(known: Sequence[Mapping[str, Any]]) -> str:
    """Return the explanation of a failure and the remedy, in one line; empty if nothing is known."""
    printed = lines(known)
    todo = re.findall(r"^(?:.*?: )??((?:do|to try): .*)", "\n".join(printed), re.MULTILINE)
    return "; ".join([*printed[:1], *todo[:1]])


def _lines_of_container(known: Sequence[Mapping[str, Any]]) -> List[str]:
    proven = [cause for cause in known if is_proven(cause)]
    partly = [cause for cause in known if not is_proven(cause) and helps(cause)]
    refuted = [cause for cause in known if _is_refuted(cause)]
    left = [cause for cause in known if cause not in (*refuted, *proven, *partly)]
    differing = "; ".join(cause["sentence"] for cause in left[:NAMED])
    confirmed = proven[:1] or partly
    if confirmed:
        what = "the cause" if proven else "a cause"
        printed = [line for cause in confirmed for line in _confirmed(cause, what)]
        # A script may change anything.
        by_script = left and any(cause["rule"] == SCRIPT for cause in confirmed)
        return [*printed, f"it differs in: {differing}"] if by_script else printed
    printed = []
    if left:
        word = "not explained; other differences" if refuted else "possible cause"
        printed += [f"{word}: {differing}", f"to try: {left[0]['remedy']}"]
    if refuted:
        word = "tried, and not the cause" if left else "not explained; tried, and not the cause"
        printed.append(f"{word}: {'; '.join(cause['sentence'] for cause in refuted)}")
    return printed


def outcome(cause: Mapping[str, Any]) -> str:
    """Return the result of the experiment on a cause."""
    if cause.get("ended"):
        verdict = "proven" if is_proven(cause) else "too few runs, or the difference stayed"
        return f"{verdict}: {_endings(cause)}"
    metrics = cause["result"]["metrics"]
    if not metrics:
        return "it was not run in a round that counts"
    shown = _overheads(metrics)
    if is_proven(cause):
        return f"proven, {shown}"
    if helps(cause):
        return f"it helps, {shown}"
    if _is_refuted(cause):
        return f"not the cause, {shown}"
    return f"too few rounds, or the difference stayed; {shown}"


def _is_refuted(cause: Mapping[str, Any]) -> bool:
    result = cause.get("result") or {}
    if cause.get("ended"):
        return bool(result.get("failed")) and result.get("took_effect", False)
    metrics = result.get("metrics") or {}
    effective = bool(metrics) and result.get("took_effect", False)
    return effective and all(metric["helps"] == PASS for metric in metrics.values())


def _confirmed(cause: Mapping[str, Any], what: str) -> List[str]:
    """Return the lines about a cause that an experiment confirmed: the difference, the proof, and the remedy."""
    label, metrics = Change(**cause["experiment"]).label, cause["result"]["metrics"]
    if is_proven(cause):
        proof = f"proven: with {label} {_endings(cause) if cause.get('ended') else _overheads(metrics)}"
    else:
        helped = {name: metric for name, metric in metrics.items() if metric["helps"] == FAIL}
        proof = f"with {label} {_overheads(helped)}: it explains {_part(helped)}{_doubt(helped)}"
    return [f"{what}: {cause['sentence']}", proof, f"do: {cause['remedy']} ({cause['source']})"]


def _endings(cause: Mapping[str, Any]) -> str:
    """Return how runs with the remedy ended, and how those without."""
    failed, runs = cause["ended"]
    return f"all of {cause['result']['ended_well']} runs ended well, and {runs - failed} of {runs} without"


def _overheads(metrics: Mapping[str, Mapping[str, Any]], most: int = 3) -> str:
    """Return the overheads with the remedy, those first that were largest without it."""
    ordered = sorted(metrics.items(), key=lambda item: -(item[1]["without"] or 0.0))
    texts = [f"of {name} is {_overhead(metric)}" for name, metric in ordered[:most]]
    more = f", and of {len(ordered) - most} more it is gone" if len(ordered) > most else ""
    return "the overhead " + ", ".join(texts) + more


def _overhead(metric: Mapping[str, Any]) -> str:
    unit = f" {metric['unit']}".rstrip()
    low, high = (None if end is None else number(end, 2, "+") for end in metric["interval"])
    ends = f" ({low} to {high})" if low is not None and high is not None else ""
    without = f", and {number(metric['without'], 2, '+')}{unit} without" if metric["without"] is not None else ""
    return f"{number(metric['overhead'], 2, '+')}{ends}{unit}{without}"


def _part(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        1 - metric["overhead"] / metric["without"]
        for metric in metrics.values()
        if metric["without"] and metric["overhead"] is not None
    ]
    if not parts:
        return "a part of it"
    low, high = (min(100, round(100 * end(parts))) for end in (min, max))
    return f"{low} % of it" if low == high else f"{low} to {high} % of it"


def _is_left(metric: Mapping[str, Any]) -> bool:
    """Return whether a part of the overhead is left with the remedy, beyond doubt."""
    low = metric["interval"][0]
    # A verdict stays even if later rounds disagree.
    return metric["rest"] == FAIL and (low is None or low > 0)


def _doubt(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Return words, to follow the explained part, if that may be all; empty if it is known."""
    is_known = all(metric["rest"] == PASS for metric in metrics.values()) or any(map(_is_left, metrics.values()))
    return "" if is_known else "; whether it is all would take more rounds"


# The sides of a job.

#: A cause, the name of the side that it slows, and the overhead of each of its metrics that failed.
Slowing = Tuple[Cause, str, Dict[str, float]]


class Tried(NamedTuple):
    """Keep a cause with a tried remedy, that remedy, and its result as in the record."""

    cause: Cause
    remedy: Remedy
    result: Mapping[str, Any] = {}


class Endings(NamedTuple):
    """Count the ``runs`` of a container, and those that ended ``badly`` or hung."""

    badly: int
    runs: int


class Explaining:
    """Explain the failures of a job by the observations of its sides and the resources of their runs.

    :param facts: of the job.
    :param runs: of the record, which grows.
    """

    def __init__(self, facts: Facts, runs: List[Dict[str, Any]]) -> None:
        """Pair each container with the side that it is compared with."""
        self._facts, self._runs = facts, runs
        self._pairs = pairs_of(facts.sides)
        self._metrics = {metric.name: metric for metric in facts.metrics}

    def slow(self, evaluation: Evaluation, failed: Collection[Tuple[str, str]]) -> List[Slowing]:
        """Return the causes that can explain metrics, the likeliest of each container first.

        :param failed: side and metric of those that failed.
        """
        by_pair = [
            [(cause, pair.subject.name, metrics) for cause in self._causes(pair, metrics)]
            for pair, metrics in self._slow_pairs(evaluation, failed)
        ]
        # The likeliest of each container first.
        return [each for turn in itertools.zip_longest(*by_pair) for each in turn if each]

    def explain_slowness(
        self,
        evaluation: Evaluation,
        failed: Collection[Tuple[str, str]],
        tried: Sequence[Tried],
        stages: Mapping[str, Stages],
    ) -> Tuple[List[Dict[str, Any]], str]:
        """Return the possible causes of the failed metrics, and a line about the extra time of the worst.

        :param failed: side and metric of those that failed.
        :param tried: causes with tried remedies, and their results.
        :param stages: of a run of a slow container, and of the side that it is compared with.
        """
        found: List[Cause] = []
        line, most = "", 0.0
        for pair, metrics in self._slow_pairs(evaluation, failed):
            found += pair.named(self._causes(pair, metrics))
            name, overhead = max(metrics.items(), key=lambda item: self._loss(*item))
            metric = self._metrics[name]
            if (metric.compare == "ratio" or metric.unit in TIMES) and self._loss(name, overhead) > most:
                most = self._loss(name, overhead)
                uses = pair.seen(Path(), self._runs)[2]
                host, inside = (stages.get(side.name, Stages()) for side in (pair.baseline, pair.subject))
                line = time_line(*uses, self._facts.cores, (host, inside))
                line = line if pair.is_only or not line else f"{pair.subject.label}: {line}"
        return self._stored(found, tried), line

    def ending(self, name: str) -> List[Cause]:
        """Return the causes that can end or hang runs of a container, the likeliest first."""
        return [
            cause
            for pair in self._pairs
            if pair.subject.name == name
            for cause in causes_of_end(*pair.seen(Path(), self._runs), self._facts.ranks)
        ]

    def seen(self, name: str) -> Tuple[Observation, Observation]:
        """Return the observations of the side that a container is compared with, and of the container.

        They are empty unless both are known.
        """
        pair = next(pair for pair in self._pairs if pair.subject.name == name)
        bare, container, _ = pair.seen(Path(), self._runs)
        return (bare, container) if bare and container else (Observation(), Observation())

    def explain_end(self, endings: Mapping[str, Endings], tried: Sequence[Tried]) -> List[Dict[str, Any]]:
        """Return possible causes for containers with runs that ended or hung, if the compared side has no such run.

        :param endings: of each side with runs that ended badly or hung.
        :param tried: as for :meth:`explain_slowness`.
        """
        pairs = [pair for pair in self._pairs if pair.subject.name in endings and pair.baseline.name not in endings]
        found = [cause for pair in pairs for cause in pair.named(self.ending(pair.subject.name))]
        entries = self._stored(found, tried)
        if len(pairs) != 1:
            # If several containers ended, it is unknown which of them a remedy mended.
            return entries
        ended = [*endings[pairs[0].subject.name]]
        return [{**entry, "ended": ended} for entry in entries]

    def _slow_pairs(
        self, evaluation: Evaluation, failed: Collection[Tuple[str, str]]
    ) -> Iterable[Tuple[Pair, Dict[str, float]]]:
        """Yield each container that is too slow, with the overhead of its metrics that failed."""
        for pair in self._pairs:
            metrics = {
                metric: pairs.estimate or 0.0
                for (side, metric), pairs in evaluation.pairs.items()
                if side == pair.subject.name and (side, metric) in failed and (pairs.estimate or 0.0) > pairs.lowest
            }
            if metrics:
                yield pair, metrics

    def _causes(self, pair: Pair, metrics: Iterable[str]) -> List[Cause]:
        failed = [self._metrics[name] for name in metrics]
        by_side = builds.read(self._facts.identity, self._runs, Path())
        line = builds.difference(*(by_side.get(side.name, {}) for side in (pair.baseline, pair.subject)))
        others = [RULES["build"].cause(builds=line.partition(": ")[2])] if line.startswith(builds.OTHER) else []
        return causes(*pair.seen(Path(), self._runs), failed, self._facts.ranks, others)

    def _loss(self, metric: str, worse: float) -> float:
        """Return by how many percent longer the container takes: 100 for half the rate."""
        return worse if self._metrics[metric].better == "lower" else 100 * worse / max(1e-9, 100 - worse)

    def _stored(self, found: Sequence[Cause], tried: Sequence[Tried]) -> List[Dict[str, Any]]:
        pairs = {pair.subject.name: pair for pair in self._pairs}
        entries = []
        for cause, remedy, result in tried:
            pair = pairs[remedy.of]
            seen = of_pair(Path(), self._runs, (pair.baseline.name, remedy.name))
            shown = {**result, "took_effect": took_effect(entry(cause), *seen)}
            entries.append({**entry(pair.named([cause])[0]), "result": shown})
        return stored(found, entries)
