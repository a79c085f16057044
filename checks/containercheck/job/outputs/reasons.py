"""Find the line that explains why a run failed, in its standard error and its standard output.

The first error of the process that failed first is the reason. Launchers and runtimes then print further lines (hints,
follow-ups, summaries, backtraces). The table ``reasons.tsv`` has these lines; the first row that matches a line counts.
Each row comes from real output in ``ci/tests/outputs/reasons``, sorted by program; a test fails for an unused row. The
order of lines across the two files is unknown, so the line with the best level counts. Among several, the first counts,
and standard error before standard output.

Standard library only, Python 3.6 or newer: the job and the later judgement use these functions on texts.
"""

import csv
import itertools
import re
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Pattern, Sequence

from containercheck.job import contract
from containercheck.job.container_runtimes import RUNTIMES

#: Levels of a line: how well it explains the failure of a run, the best first.
#: CAUSE: known words for a cause.
#: ERROR, WORDS: words for an error, or for a failed action, of a program without a row.
#: DEATH: the death of a process, reported by its launcher, shell or signal handler.
#: LIBRARY: a complaint of MPI or PMIx; it may be harmless, or follow from another rank's death.
#: FOLLOW: a runtime's message after another process failed, or while it tears down.
#: PLAIN: no word of an error.
#: SUMMARY: a launcher's message with only the exit status.
#: NOISE: never a reason.
LEVELS = ("CAUSE", "ERROR", "WORDS", "DEATH", "LIBRARY", "FOLLOW", "PLAIN", "SUMMARY", "NOISE")
CAUSE, ERROR, WORDS, DEATH, LIBRARY, FOLLOW, PLAIN, SUMMARY, NOISE = range(len(LEVELS))

#: Further lines that belong to a line that matches.
#: HELP: the rest of its sentence, and the facts (``Node: n1``) up to the next ruler, as in Open MPI's help texts.
#: STACK: the last line of the paragraph, in which MPICH states the error.
#: A pattern: the next line that matches it, within a few lines.
LINE, HELP, STACK = "", "help", "stack"


class Meaning(NamedTuple):
    """Hold the level of a line, and the further lines that belong to it."""

    level: int
    extent: str = LINE


class KnownLine(NamedTuple):
    """Hold a row of the table: the program that prints a line, its pattern, and its meaning."""

    program: str
    pattern: Pattern[str]
    meaning: Meaning


def _row(program: str, level: int, pattern: str, extent: str = LINE) -> KnownLine:
    return KnownLine(program, re.compile(pattern), Meaning(level, extent))


def _of_runtimes() -> Iterator[KnownLine]:
    for runtime in RUNTIMES:
        for level, patterns in ((FOLLOW, runtime.follow_ups), (CAUSE, runtime.causes), (NOISE, runtime.noise)):
            for pattern in patterns:
                yield _row(runtime.name, level, pattern)


#: All rows. They are applied to a line without launchers' tags.
ROWS: List[KnownLine] = []
with Path(__file__).with_name("reasons.tsv").open(encoding="utf-8") as _table:
    for _cells in csv.reader(_table, delimiter="\t", quoting=csv.QUOTE_NONE):
        if _cells == ["runtimes"]:
            ROWS += _of_runtimes()
        elif not _cells[0].startswith("#"):
            ROWS.append(_row(_cells[0], LEVELS.index(_cells[1]), *_cells[2:]))

#: Most characters of a reason.
LONGEST = 300
#: Numbers of lines that are read from the beginning and the end of a file, and of characters of a line.
FIRST_LINES, LAST_LINES, LETTERS = 5000, 15000, 600
#: Number of lines after a line that may belong to it.
NEAR = 8
#: Meanings of signals, by number. Shells and mpirun report a signal as the exit status 128 + its number.
SIGNALS = {
    4: "illegal instruction, perhaps because it is built for a newer processor",
    6: "aborted",
    7: "bus error",
    8: "floating-point exception",
    9: "killed, perhaps because the memory was used up",
    11: "segmentation fault",
    15: "terminated",
    24: "the limit of processor time was reached",
    25: "the limit of file size was reached",
    31: "a filter refuses a system call (seccomp)",
}

#: Escape sequences of a terminal, such as colours.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Tags of launchers and libraries before a line: ``[1,0]<stderr>:``, ``[n1:4711]``, ``[[1,0],0]``, ``[0]``, ``0:``, a
#: time; and this library's tag for programs that run at the same time, ``program1:``.
_TAGS = re.compile(
    r"^(?:\[\d+,\d+\](?:<\w+>)?: ?|\[[\w.-]+:\d+(?::\d+)*\] ?|\[\[\d+,\d+\],\d+\] |\[ ?\d+\] |\d+: "
    r"|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\]?:? |\[\d+\.\d+\] |program\d+: )+"
)
#: A shell's words on the death of a run, before it repeats the command.
_RUN_DIED = re.compile(rf"^({contract.RUNS}/\S+/{contract.SCRIPT}: line \d+: +\d+ [A-Z]\w+(?:[ -]\w+)*)\b.*")
_RULER = re.compile(r"\W*$")
#: The rulers around a help text of Open MPI.
_HELP_RULER = re.compile(r"-{60,}$")
_TRACEBACK = re.compile(r"^\W*(?:Exception Group )?Traceback \(most recent call last\):")
_IGNORED = re.compile(r"^Exception ignored in")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
#: A fact in a help text.
_FACT = re.compile(r"\s*([A-Z][\w ()]*): +(\S.*)")
#: Words for an error, and for a failed action. On standard output they must begin a line: programs also compute errors.
_ERROR = re.compile(r"\b(?:error|fatal|panic)\b|Error\b", re.IGNORECASE)
_ERROR_FIRST = re.compile(r"[\W_]*(?:[\w./-]+: )?(?:\w+ )?(?:error|fatal)\b(?!\s*=)", re.IGNORECASE)
_WORDS = re.compile(
    r"\b(?:fail(?:ed|ure|s)?|cannot|can't|could not|couldn't|unable to|not found|no such|denied|invalid|illegal"
    r"|abort(?:ed|ing)?|exceeded|unsupported|not supported|refused|unrecogni[sz]ed|unknown|out of memory|no space left"
    r"|not permitted|too large|temporarily unavailable|not implemented"
    r"|not connected|doesn't exist|does not exist|missing)\b",
    re.IGNORECASE,
)
#: Words of launchers about a rank that a signal ended.
_DIED = ("noticed that process rank", "TERMINATED WITH THE EXIT STRING: ", "srun: error: ")
#: Lines in which these words are harmless: computed errors, counts, warnings.
_HARMLESS = re.compile(
    r"\bwarn(?:ing)?\b|\b(?:no|0|without) (?:errors?|failures?)\b|\berrors?\s*[=:]\s*[-+.\d]"
    r"|\b(?:rms|relative|absolute|max(?:imum)?|mean|estimated|truncation|rounding)\W+errors?\b|\bfailed\s*[=:]\s*0\b",
    re.IGNORECASE,
)


class ReasonLine(NamedTuple):
    """Hold a line that explains why a run failed, with its level."""

    level: int
    text: str


def describe(status: int, err: str, out: str, when: str = "") -> str:
    """Return one line with the reason why a run with this exit status failed.

    :param err: its standard error.
    :param out: its standard output.
    :param when: words for the moment of the failure, if known.
    """
    reason = find(err, out)
    # Launchers also end with other statuses above 128: if the cause is known, the status is not explained.
    signal = "" if reason is not None and reason.level == CAUSE else meaning(status)
    return f"exit status {status}{signal}{when}: {_in_words(reason, err + out)}"


def meaning(status: int) -> str:
    """Return the signal of an exit status, in words and in brackets; empty if the status has none."""
    signal = -status if status < 0 else status - 128
    return f" ({SIGNALS[signal]})" if signal in SIGNALS else ""


def why(err: str, out: str) -> str:
    """Return the line that explains why a run failed, or that there is none."""
    return _in_words(find(err, out), err + out)


def _in_words(reason: Optional[ReasonLine], printed: str) -> str:
    if reason is None:
        return "it printed nothing that says why" if re.search(r"\w", printed) else "it printed nothing"
    if reason.level == PLAIN:
        return f"it printed no error; its last line is: {reason.text}"
    if reason.level == SUMMARY:
        return f"it printed no error; its launcher says: {reason.text}"
    return reason.text


def error(err: str, out: str, levels: Sequence[int]) -> str:
    """Return the first line with the best of these levels; empty if there is none."""
    reasons = [reason for reason in _all(err, out) if reason.level in levels]
    return min(reasons, key=lambda reason: reason.level).text if reasons else ""


def died(err: str, out: str) -> str:
    """Return a launcher's line about a rank that a signal ended; empty if there is none.

    Some launchers end with status 0 even then.
    """
    if not any(words in text for words in _DIED for text in (err, out)):
        return ""
    deaths = [reason for reason in _all(err, out) if reason.level == DEATH]
    return next((reason.text for reason in deaths if any(words in reason.text for words in _DIED)), "")


def find(err: str, out: str) -> Optional[ReasonLine]:
    """Return the line that best explains the failure of a run; None if no line can."""
    reasons = _all(err, out)
    best = min((reason.level for reason in reasons), default=NOISE)
    alike = [reason for reason in reasons if reason.level == best]
    if best == PLAIN:
        # The last line; of standard error, if it has one.
        on_error = [reason for reason in _reasons(_lines(err), True) if reason.level == PLAIN]
        return (on_error or alike)[-1]
    return alike[0] if alike else None


def _all(err: str, out: str) -> List[ReasonLine]:
    return _reasons(_lines(err), True) + _reasons(_lines(out), False)


def _lines(text: str) -> List[str]:
    """Return the lines to read, without colours."""
    lines = text.splitlines()
    if len(lines) > FIRST_LINES + LAST_LINES:
        lines = lines[:FIRST_LINES] + lines[-LAST_LINES:]
    return [_COLOUR.sub("", line[:LETTERS]) for line in lines]


def _untagged(line: str) -> str:
    """Return a line without a launcher's tags, but with its indentation."""
    return _TAGS.sub("", line)


def _reasons(lines: List[str], is_error: bool) -> List[ReasonLine]:
    """Return each line of a file with its level; leave out lines that are never a reason.

    :param is_error: whether the file is standard error.
    """
    reasons = []
    bodies = [_untagged(line) for line in lines]
    for place, meaning in enumerate(_meanings(bodies, is_error)):
        if meaning.level != NOISE:
            whole = _RUN_DIED.sub(r"\1", _whole(lines, bodies, place, meaning.extent))
            text = " ".join(whole.split())
            reasons.append(ReasonLine(meaning.level, text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."))
    return reasons


def _meanings(bodies: List[str], is_error: bool) -> Iterator[Meaning]:
    """Yield the meaning of each line; in a traceback and in a help text, most lines are not reasons."""
    in_traceback = is_ignored = in_help = False
    for place, body in enumerate(bodies):
        known_line = _known_line(body)
        if _TRACEBACK.match(body) or _IGNORED.match(body):
            in_traceback, is_ignored = True, is_ignored or bool(_IGNORED.match(body))
            yield Meaning(NOISE)
        elif in_traceback and (body[:1].isspace() or not body.strip()):
            yield Meaning(NOISE)
        elif in_traceback and _EXCEPTION.match(body) and (known_line is None or known_line.program == "Python"):
            yield Meaning(NOISE if is_ignored else known_line.meaning.level if known_line else CAUSE)
            in_traceback = is_ignored = False
        elif known_line:
            yield known_line.meaning
        elif _HELP_RULER.match(body):
            in_help = not in_help and _begins_help(bodies, place)
            yield Meaning(NOISE)
        elif in_help:
            is_first = _HELP_RULER.match(bodies[place - 1]) and not _HARMLESS.search(body)
            yield Meaning(ERROR, HELP) if is_first else Meaning(NOISE)
        else:
            yield _classify(body, is_error)


def _begins_help(bodies: List[str], place: int) -> bool:
    """Return whether a ruler begins a help text: text and another ruler must follow."""
    after = bodies[place + 1 : place + 2]
    ends = [body for body in bodies[place + 1 : place + 60] if _HELP_RULER.match(body)]
    return bool(after and ends and re.search(r"\w", after[0]))


def _known_line(body: str) -> Optional[KnownLine]:
    return next((row for row in ROWS if row.pattern.search(body)), None)


def _classify(body: str, is_error: bool) -> Meaning:
    """Return the meaning of a line without a row in the table, by its words."""
    if not re.search(r"\w", body):
        return Meaning(NOISE)
    if not _HARMLESS.search(body):
        if _ERROR.search(body) if is_error else _ERROR_FIRST.match(body):
            return Meaning(ERROR, r"\S" if body.rstrip().endswith(":") else LINE)
        if is_error and _WORDS.search(body):
            return Meaning(WORDS)
    return Meaning(PLAIN)


def _whole(lines: List[str], bodies: List[str], place: int, extent: str) -> str:
    """Return a printed line with the lines that belong to it."""
    line = lines[place]
    if extent == LINE:
        return line
    if extent == HELP:
        return line[: len(line) - len(bodies[place])] + _of_help(bodies, place)
    if extent == STACK:
        paragraph = [*itertools.takewhile(lambda body: not _RULER.match(body), bodies[place:])]
        return " ".join([line, *paragraph[1:][-1:]])
    after = bodies[place + 1 : place + 1 + NEAR]
    return " ".join([line, *[body for body in after if re.search(r"\w", body) and re.search(extent, body)][:1]])


def _of_help(bodies: List[str], place: int) -> str:
    """Return the first sentence of a help text, and its facts in brackets."""
    words, facts = [], []
    for body in itertools.takewhile(lambda body: not _HELP_RULER.match(body), bodies[place : place + 40]):
        fact = _FACT.fullmatch(body)
        if fact and fact[1] != "NOTE":
            facts.append(f"{fact[1]}: {fact[2].strip()}")
        elif not facts:
            words += body.split() or [""]
    # Up to the first empty line, or the end of the sentence.
    paragraph = " ".join(words[: words.index("")] if "" in words else words)
    sentence = re.split(r"(?<=\.) ", paragraph)[0].rstrip(":")
    return f"{sentence.rstrip('.')} ({', '.join(facts)})" if facts else sentence
