"""Decide if a container runtime or an image may replace another one, or compare several, as in D12.6 section 9."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shlex
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from containercheck import reframe_internals
from containercheck.command import parsers, run
from containercheck.job import container_runtimes, inventory
from containercheck.job.build import file_trees, image_files
from containercheck.job.container_runtimes import METADATA, RUNTIMES, WAY
from containercheck.job.contract import BASELINE
from containercheck.report import view
from containercheck.results import selections
from containercheck.results.cases import Case, names
from containercheck.results.formatting import columns, number, say
from containercheck.results.row import PASS, Row
from containercheck.session.reframe_process import Workplace

#: Commands of runtimes that a module may provide.
COMMANDS = tuple(runtime.command for runtime in RUNTIMES if runtime.builds)
#: Verdicts on a case and on the whole, and the exit status of each.
REJECTED, UNDECIDED, ACCEPTED = "rejected", "undecided", "accepted"
STATUS = {ACCEPTED: parsers.FINE, REJECTED: parsers.BROKEN, UNDECIDED: parsers.NOT_JUDGED}


class UnknownCandidate(Exception):
    """A runtime or an image cannot be found; the message names it."""


def is_image(word: str) -> bool:
    """Return whether a word names an image: a SIF file, an unpacked image, or an address."""
    path = Path(word)
    return "://" in word or (path / METADATA).is_dir() or (path.is_file() and image_files.is_sif(path))


def resolved(word: str) -> str:
    """Return the path of the runtime that a word names, with its way to run images if the word names one.

    :param word: a command, a path, a module, or the name of a runtime.
    :raises UnknownCandidate: no runtime has this name.
    """
    before, sign, way = word.rpartition(WAY)
    # The names of commands and modules may contain the sign.
    for name, suffix in [(word, ""), *([(before, sign + way)] if sign else [])]:
        path = shutil.which(next((known.command for known in RUNTIMES if known.name.lower() == name.lower()), name))
        if not path and re.fullmatch(r"[\w.+/-]+", name):
            search = " || ".join(f"command -v {command}" for command in COMMANDS)
            script = f"module load {shlex.quote(name)} >/dev/null 2>&1 && {{ {search}; }} 2>/dev/null"
            status, output = inventory.output_of(["bash", "-lc", script])
            path = output.rpartition("\n")[2] if status == 0 else None
        if path:
            return f"{Path(path).absolute()}{suffix}"
    raise UnknownCandidate(
        f"no container runtime {word}: neither a command, nor a path, nor a module that brings one; and no image"
    )


def version(word: str) -> str:
    """Return the version that a runtime prints, in one line, and its way to run images."""
    path, way = container_runtimes.with_way(word)
    _, output = inventory.output_of([path, "--version"])
    return ", ".join(filter(None, (" ".join(output.split()) or "of an unknown version", way)))


def identity(kind: str, word: str) -> str:
    """Return the name of a candidate with its identity: a runtime's version, or an image's digest."""
    path = Path(word)
    if kind == "runtimes":
        return f"{word}, {version(word)}"
    if path.is_file():
        return f"{word}, sha256 {file_trees.digest_of(path)}"
    # An address contains its digest. A directory is identified by its time.
    return f"{word}, of {path.stat().st_mtime_ns}" if path.is_dir() else word


def verdict(case: Case) -> str:
    """Return the verdict on a case."""
    if selections.failure(case):
        return REJECTED
    if not case.rows:
        # Without metrics, it passed by its answers if anything ran.
        return ACCEPTED if case.result == "pass" and case.measured else UNDECIDED
    verdicts = {row.verdict for row in case.rows}
    return ACCEPTED if verdicts == {PASS} else UNDECIDED


def conclude(titles: Mapping[str, str], cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the tables, the cases that are not accepted and the whole verdict, and return the exit status.

    :param titles: the compared runtimes or images, by the name of their side.
    """
    ran = selections.ran(cases)
    for problem in [*problems, *([] if ran else ["no check was run"])]:
        say(f"error: {problem}")
    print("\n".join(["", *view.lines(cases), "", *versions_table(ran, titles)]), flush=True)
    by_verdict = {word: [case for case in ran if verdict(case) == word] for word in STATUS}
    lacking = [word for word in (REJECTED, UNDECIDED) if by_verdict[word]]
    for word in lacking:
        say(f"{word}: {names(by_verdict[word])}")
    whole = lacking[0] if lacking else ACCEPTED
    if whole == ACCEPTED and (problems or not ran):
        whole = UNDECIDED
    counts = ", ".join(f"{len(judged)} {word}" for word, judged in by_verdict.items())
    hint = ": not accepted; the same with --resume goes on with the open cases" if whole == UNDECIDED else ""
    say(f"{whole}: {counts}{hint}")
    return STATUS[whole]


def candidates(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the checks' variable for the candidates, and their paths by side.

    :raises UnknownCandidate: a candidate does not exist, or both runtimes and images are named.
    """
    kinds = {is_image(word) for word in words}
    if len(kinds) > 1:
        raise UnknownCandidate("a runtime and an image cannot be compared: name runtimes, or images")
    sides = ["old", "new"] if len(words) == 2 else ["old", *(f"new{number}" for number in range(1, len(words)))]
    if kinds == {True}:
        paths = [word if "://" in word else str(Path(word).absolute()) for word in words]
        return "compared_images", dict(zip(sides, paths))
    paths = [resolved(word) for word in words]
    try:
        runtimes = [container_runtimes.chosen(path) for path in paths]
    except ValueError as error:
        raise UnknownCandidate(str(error)) from None
    kinds_of = ["-".join(filter(None, (runtime.name.lower(), runtime.way.name))) for runtime in runtimes]
    if len(set(kinds_of)) > 1 and all(kinds_of):
        # Each is compared with bare, not with another candidate.
        sides = [name if kinds_of.count(name) == 1 else f"{name}{place}" for place, name in enumerate(kinds_of, 1)]
    return "runtimes", dict(zip(sides, paths))


def put_on_path(paths: Mapping[str, str]) -> None:
    """Put the first candidate that builds images on the PATH if there is no runtime to build them.

    :param paths: the candidates, by the name of their side.
    """
    if any(container_runtimes.on_path()):
        return
    for name, word in paths.items():
        command, _ = container_runtimes.with_way(word)
        if container_runtimes.by_command(command).builds:
            os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{os.path.dirname(command)}"
            say(f"no container runtime is on the PATH: {name} builds the images, unless the site's file names another")
            return


def main(argv: Sequence[str], place: Workplace) -> int:
    """Run one session that compares the candidates of the command line, and return the exit status."""
    _, _, parser = parsers.parsed("acceptance", argv)
    # A word after the first option may be the value of an option.
    words = [*itertools.takewhile(lambda word: not word.startswith("-"), argv)]
    rest = argv[len(words) :]
    if len(words) < 2:
        parser.error("it takes two: OLD and NEW, before all options")
    try:
        kind, paths = candidates(words)
    except UnknownCandidate as error:
        parser.error(str(error))
    if kind != "runtimes" and not reframe_internals.options_of(rest).name:
        parser.error("images are of one application: name the check (-n)")
    titles = {name: version(path) if kind == "runtimes" else path for name, path in paths.items()}
    for name, path in paths.items():
        say(f"{name}: {path}{f', {titles[name]}' if titles[name] != path else ''}")
    # A list without braces: after a brace on the command line, ReFrame cannot find sessions in its database.
    chosen = ["-S", f"{kind}={json.dumps(list(paths.items()))}", "--exclude", "%variant=bare"]
    if kind == "runtimes":
        put_on_path(paths)
    compared = {name: identity(kind, path) for name, path in paths.items()}
    return run.session([*chosen, *rest], place, functools.partial(conclude, titles), compared, "acceptance")


def versions_table(cases: Sequence[Case], titles: Mapping[str, str]) -> list[str]:
    """Return the table: for each metric, the medians of bare and of each version, with the difference from bare.

    A version that was not measured, because its runs failed, has a dash.

    :param titles: the compared runtimes or images, by the name of their side.
    """
    text = []
    for case in cases:
        head = (case.label, case.variant, str(case.nodes))
        for row in {row.metric: row for row in case.rows}.values():
            bare, *others = (_median(case, side, row.metric) for side in (BASELINE, *titles))
            if bare is not None and others.count(None) < len(others):
                cells = ("-" if value is None else f"{number(value)} ({_more(row, bare, value)})" for value in others)
                text.append((*head, row.metric, f"{number(bare)} {row.unit}", *cells))
    if not text:
        return []
    legend = [f"{name}: {title}" for name, title in titles.items()]
    return [*columns([("application", "variant", "nodes", "metric", "bare", *titles), *text]), *legend]


def _median(case: Case, side: str, metric: str) -> float | None:
    values = [sides[side][metric] for sides in case.measured if metric in sides.get(side, ())]
    return statistics.median(values) if values else None


def _more(row: Row, bare: float, value: float) -> str:
    """Return the difference of a version from bare: in percent or as a difference, as for the verdict."""
    if row.overhead_unit == "%" and bare:
        return f"{number(100 * (value / bare - 1), 2, '+')} %"
    return number(value - bare, 2, "+")
