"""Show with real sessions the verdicts on a program that is compared with itself; called by ci/benchmark.

    itself.py [--times N] [--more PERCENT] [-S NAME=VALUE]... [CHECK ...]

Each session compares the bare program with the bare program, on this machine as it is: whatever fails, fails falsely.
Printed is a line for each session and in the end, for each check and figure, what is accepted, the median of the
overheads in the same unit, how many sessions ended with which verdict, the median of the rounds after which it fell (of
those where it fell), and the median of the seconds that the check's runs took, all rounds together. Then in total:
false failures, which must be none, and the share of comparisons that closed (passed or failed).

With ``--more 10`` the subject really does 10 % more work, for the checks in :data:`MORE`, and the bare side does not.
*Found* is a failure of a figure that shows the work, *missed* a pass of all of them; other figures must still not fail.
More work than a figure tolerates has to be found; the work that is just tolerated, or less, may pass. Where higher is
better, p % more work are 100 p / (100 + p) % less of the figure.

``-S`` goes on to ReFrame, for instance ``-S seconds=120``. Exit status 1 after a false failure, or where a check went
wrong otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from containercheck.results.row import Row
from twice import CHECKS, Case, SessionError, Sessions, Stopped, chosen, columns

USUAL = ("PingPong", "HPL", "WordCount", "StartUp", "GROMACS")


@dataclass(frozen=True)
class More:
    """A way to give a check's subject more work; PERCENT and SOURCES (checks/src) in its words are filled in.

    :ivar figures: figures that show the work.
    :ivar answers: answers that still agree.
    :ivar facts: the rest of what :class:`bare_twice.BareTwice` takes.
    """

    figures: tuple[str, ...]
    answers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def filled_in(self, percent: int) -> dict[str, Any]:
        """Return the facts for this much more work."""

        def fill(text: str) -> str:
            return text.replace("PERCENT", str(percent)).replace("SOURCES", str(CHECKS / "src"))

        facts = {key: fill(fact) if isinstance(fact, str) else [*map(fill, fact)] for key, fact in self.facts.items()}
        return {**facts, "answers": list(self.answers)}


PAIRS = ("within_socket", "between_sockets", "between_nodes")
#: Checks with a figure that grows with the work; a rate, as in HPL and GROMACS, would not change.
MORE = {
    # A longer text, on disk before it is read, as the usual text is (text/make_text.py).
    "WordCount": More(
        ("seconds_compute", "seconds_counting"),
        facts={
            "input": [
                'cp text.txt more.txt && head -c "$(($(stat -c %s text.txt) * PERCENT / 100))" text.txt >>more.txt',
                "sync more.txt",
            ],
            "files": ["more.txt"],
            "options": ["more.txt"],
        },
    ),
    # More iterations of the solver on the same mesh.
    "OpenFOAM": More(
        ("solver",),
        ("cells", "continuity_error"),
        {
            "reset": [
                "n=$(sed -n 's/^endTime *\\([0-9]*\\);.*/\\1/p' case/system/controlDict)",
                'sed -i "s/^endTime .*/endTime $((n + n * PERCENT / 100));/" case/system/controlDict',
            ]
        },
    ),
    # The same program, built to exchange more messages than the number by which it divides the time.
    "PingPong": More(
        tuple(f"{name}_{pair}" for name in ("latency", "bandwidth") for pair in PAIRS),
        ("wrong_bytes", *(f"pairs_{pair}" for pair in PAIRS)),
        {
            "input": [
                "sed 's|number < count;|number < count + count * PERCENT / 100;|' 'SOURCES/pingpong/pingpong.c' "
                ">more.c",
                "grep -q 'count \\* PERCENT / 100' more.c",
                "mpicc -O2 -Wall -o bin/more more.c",
            ],
            "executable": "./bin/more",
        },
    ),
}


@dataclass
class Tally:
    """All sessions of one check.

    :ivar cases: the cases of the sessions, without those that were skipped or broken.
    :ivar shows: the figures that show more work.
    """

    cases: list[Case] = field(default_factory=list)
    shows: frozenset[str] = frozenset()

    def figures(self) -> list[str]:
        """Return the names of the figures."""
        return list(dict.fromkeys(row.figure for case in self.cases for row in case.rows))

    def rows(self, figure: str) -> list[Row]:
        """Return the rows of the sessions for a figure."""
        return [row for case in self.cases for row in case.rows if row.figure == figure]

    def count(self, figure: str, verdict: str) -> int:
        """Return the number of sessions with this verdict on a figure."""
        return sum(row.verdict == verdict for row in self.rows(figure))

    def false_failures(self) -> int:
        """Return the number of comparisons that failed and must not."""
        return sum(self.count(figure, "fail") for figure in self.figures() if figure not in self.shows)

    def decided_after(self, figure: str) -> list[int]:
        """Return the rounds after which the verdicts on a figure fell, where they fell."""
        rounds = (case.told["pairs"].get(figure, {}).get("decided_after") for case in self.cases)
        return [number for number in rounds if number is not None]

    def found(self) -> dict[str, list[Case]]:
        """Return the sessions in which the work was found, missed, and neither."""
        sessions: dict[str, list[Case]] = {"found": [], "missed": [], "open": []}
        for case in self.cases:
            verdicts = [row.verdict for row in case.rows if row.figure in self.shows]
            missed = bool(verdicts) and all(verdict == "pass" for verdict in verdicts)
            sessions["found" if "fail" in verdicts else "missed" if missed else "open"].append(case)
        return sessions


def middle(values: Sequence[float]) -> str:
    """Return a median as text; a dash where there are no values."""
    return f"{statistics.median(values):.3g}" if values else "-"


def line(case: Case) -> str:
    """Return the words for a check in the line of its session."""
    if case.skipped or case.broken:
        return f"{case.check} {'skipped' if case.skipped else 'BROKEN'}: {case.skipped or case.broken}"
    shown = {"pass": "passes", "fail": "FAILS", "inconclusive": "open"}[case.verdict]
    names = [row.figure for row in case.rows if row.verdict == case.verdict]
    which = "" if case.verdict == "pass" else f" ({', '.join(names)})"
    rounds = f"{case.rounds} round{'s'[: case.rounds != 1]}"
    return f"{case.check} {shown}{which}, {rounds}, {case.seconds:.0f} s"


def summary(tallies: Mapping[str, Tally]) -> list[str]:
    """Return the table of all checks and figures, and the line about all of them."""
    rows = [("check", "figure", "accepted", "overhead", "sessions", "passed", "failed", "open", "rounds", "seconds")]
    for check, tally in tallies.items():
        seconds = middle([case.seconds for case in tally.cases])
        for figure in tally.figures():
            figure_rows = tally.rows(figure)
            counts = [tally.count(figure, verdict) for verdict in ("pass", "fail", "inconclusive")]
            accepted = f"{figure_rows[-1].accepted[1]:g} {figure_rows[-1].overhead_unit}"
            overhead = f"{statistics.median(row.overhead for row in figure_rows):+.2g}"
            name = figure + (" +" if figure in tally.shows else "")
            numbers = map(str, (len(figure_rows), *counts))
            rows.append((check, name, accepted, overhead, *numbers, middle(tally.decided_after(figure)), seconds))
            check, seconds = "", ""
    verdicts = [row.verdict for tally in tallies.values() for case in tally.cases for row in case.rows]
    closed = sum(verdict != "inconclusive" for verdict in verdicts)
    share = f"{closed} of {len(verdicts)} comparisons closed ({100 * closed / max(1, len(verdicts)):.0f} %)"
    false = sum(tally.false_failures() for tally in tallies.values())
    return [*columns(rows, 2), f"total: {false} false failures (must be 0); {share}"]


def detection(check: str, tally: Tally, percent: int) -> str:
    """Return the line about how often more work was found."""
    parts = []
    for word, cases in tally.found().items():
        median = f" ({middle([case.rounds for case in cases])} rounds, {middle([case.seconds for case in cases])} s)"
        parts.append(f"{word} in {len(cases)}{median if cases else ''}")
    return f"{check}, {percent} % more work, {len(tally.cases)} sessions: {', '.join(parts)}"


def measure(names: Sequence[str], times: int, percent: int, options: Sequence[str]) -> tuple[dict[str, Tally], int]:
    """Run the sessions, with a line for each, and return the tallies and how many cases were broken."""
    more = {name: MORE[name].filled_in(percent) for name in names} if percent else {}
    tallies: dict[str, Tally] = {}
    broken = 0
    with Sessions.begin(names, more) as sessions:
        for number in range(1, times + 1):
            try:
                cases = sessions.run(*options)
            except Stopped as signal:
                print(f"stopped by {signal}: the sessions before it count", flush=True)
                break
            print(f"session {number} of {times}: {'; '.join(map(line, cases))}", flush=True)
            broken += sum(bool(case.broken) for case in cases)
            for case in cases:
                if not (case.skipped or case.broken):
                    shows = frozenset(MORE[case.check.split()[0]].figures if percent else ())
                    tallies.setdefault(case.check, Tally(shows=shows)).cases.append(case)
    return tallies, broken


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="sessions; default 20")
    parser.add_argument("--more", type=int, default=0, metavar="PERCENT", help="1 to 100: more work for the subject")
    parser.add_argument("-S", dest="options", action="append", default=[], metavar="NAME=VALUE", help="for ReFrame")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"default {' '.join(USUAL)}; {' '.join(MORE)}")
    arguments = parser.parse_args(words)
    if arguments.times < 1 or not 0 <= arguments.more <= 100:
        parser.error("--times takes 1 or more, --more 1 to 100")
    arguments.checks = chosen(arguments.checks, MORE if arguments.more else USUAL)
    unknown = [name for name in arguments.checks if arguments.more and name not in MORE]
    if unknown:
        parser.error(f"no way is known to give {', '.join(unknown)} more work: only {', '.join(MORE)}")
    return arguments


def main() -> None:
    """Run the sessions, and print the tables."""
    arguments = parse(sys.argv[1:])
    options = [f"--setvar={option}" for option in arguments.options]
    try:
        tallies, broken = measure(arguments.checks, arguments.times, arguments.more, options)
    except SessionError as error:
        sys.exit(f"itself: error: {error}")
    print("\n".join(["", *summary(tallies)]))
    if arguments.more:
        print("\n".join(detection(check, tally, arguments.more) for check, tally in tallies.items()))
        print("+: a figure that shows the work")
    if broken:
        print(f"{broken} times a check went wrong otherwise: see the lines of the sessions")
    sys.exit(bool(broken or not tallies or any(tally.false_failures() for tally in tallies.values())))


if __name__ == "__main__":
    main()
