"""Files that a run keeps of the first round of each side, for plots: the map of pairs, the time of ranks in MPI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from containercheck.node import contract
from containercheck.results.cases import Case

#: Largest file that is read, in bytes.
MOST_BYTES = 4 << 20
#: Seconds by which the clocks of a node and of this machine may differ.
CLOCKS = 300.0


class FileError(Exception):
    """A file cannot be drawn; the message says why."""


def text(path: Path) -> str:
    """Return the text of a file.

    :raises FileError: it cannot be read, or is too large to be drawn.
    """
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(getattr(error, "strerror", None) or "it is no text") from None
    if len(content) > MOST_BYTES:
        raise FileError(f"it has more than {MOST_BYTES >> 20} MiB")
    return content


def drawn_cases(cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose files are drawn, those on most nodes first.

    A bare case counts only where no container ran: the job of a container runs the bare program too.
    """
    contained = {case.identity_as("") for case in cases if case.variant != "bare"}
    chosen = [case for case in cases if case.variant != "bare" or case.identity_as("") not in contained]
    return sorted(chosen, key=lambda case: -case.nodes)


def of_case(case: Case, name: str) -> Iterator[tuple[str, Path]]:
    """Yield label and path of each side's file of a case's own job, the bare program's first.

    A later session writes into the same directory, and may have no such side. What failed has its files in the
    directory that it ran in.
    """
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    earliest, latest = case.when - case.job_seconds - CLOCKS, case.when + CLOCKS
    for path in sorted(
        Path(directory).glob(f"{contract.FIRST_ROUND}/{name}"), key=lambda path: _order(path.parent.name)
    ):
        try:
            written = path.stat().st_mtime
        except OSError:
            written = latest
        if earliest <= written <= latest:
            yield _label(case, path.parent.name), path


def _order(directory: str) -> tuple[bool, str]:
    """Return the key that sorts the directories of a round: the bare program first."""
    return not directory.endswith(contract.BASELINE), directory


def _label(case: Case, directory: str) -> str:
    """Return the name of the side whose run has a directory, as the other plots have it."""
    name = directory.partition("-")[2]
    row = case.rows[0] if case.rows else None
    if name == contract.BASELINE:
        return row.baseline_label if row and row.baseline_label else "bare"
    if name == contract.SUBJECT:
        return row.subject_label if row and row.subject_label else case.variant
    return name
