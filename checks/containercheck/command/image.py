"""Check if an image is fit for this machine, without a site file; optionally measure an application in it.

A container gives the facts of the image (session/image_facts.py). The job of a check that runs with the image judges if
its ranks start in one job, and explains slow runs.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from containercheck.command import run
from containercheck.command.parsers import BROKEN, FINE, parsed
from containercheck.job import inventory, mpi
from containercheck.report import view
from containercheck.results import exported, states
from containercheck.results.cases import Case, short_name
from containercheck.results.formatting import CommandError, columns, first_line, number, typed
from containercheck.session import image_facts
from containercheck.session.image_facts import ImageFacts
from containercheck.session.reframe_process import Workplace
from containercheck.site import hosts

#: State of a finding: good, a remark, or an obstacle.
OK, REMARK, PROBLEM = "ok", "note", "PROBLEM"
#: Seconds for the start of a container from which it gets a remark; a FUSE mount takes a tenth of that.
SLOW_START = 2.0
#: Remedies for a library that the image lacks, by its kind.
LACKS = {
    "fabric": "generic runs go over Ethernet: install libfabric or UCX in the image",
    "GPU": "the runtime's option for GPUs brings the driver; the image needs the rest",
}


@dataclass(frozen=True)
class Finding:
    """A finding.

    :ivar state: one of the words above.
    :ivar topic: subject of the finding.
    :ivar text: the finding in words.
    :ivar remedy: the remedy; empty for none.
    """

    state: str
    topic: str
    text: str
    remedy: str = ""


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the findings, and return the exit status."""
    options, _, _ = parsed("image", argv)
    host = inventory.inventory()
    runs_files = [runtime for runtime in host["runtimes"] if runtime["mounts"] and not runtime["problem"]]
    if not runs_files:
        raise CommandError("no runtime that runs image files is on the PATH: see containercheck doctor")
    image = image_facts.read(options.image, runs_files[0]["path"])
    found = findings(image, host)
    names = options.names or ([f"^{check}%" for check in image.checks] if options.run else [])
    if options.run and not names:
        found.append(Finding(REMARK, "run", "nothing was run: it has the program of none of our checks"))
    if names:
        found += _run(options.image, names, place, ["--here"] if options.here else [])
    print("\n".join(_lines(found)))
    if image.checks and not names:
        print(f"next: {typed('image')} {options.image} --run, or -n {next(iter(image.checks))}")
    return FINE if is_fit(found) else BROKEN


def is_fit(found: Sequence[Finding]) -> bool:
    """Return whether there is no problem."""
    return all(finding.state != PROBLEM for finding in found)


def findings(image: ImageFacts, host: Mapping[str, Any]) -> list[Finding]:
    """Return the findings, the most basic ones first.

    :param host: result of ``containercheck.job.inventory.inventory``.
    """
    here = host["processor"]["architecture"]
    if image.architecture in (None, here):
        first = Finding(OK, "architecture", image.architecture or "not stated by the image")
    else:
        text = f"{image.architecture}, and this machine is {here}"
        first = Finding(PROBLEM, "architecture", text, f"build it for {here}, or pull that one")
    system = Finding(OK, "system", ", ".join(filter(None, [image.system, _libc(image)])))
    checks = ", ".join(f"{check} ({program})" for check, program in sorted(image.checks.items()))
    last = Finding(OK if checks else REMARK, "checks", checks or "it has the program of none of our checks")
    variables = (
        Finding(
            REMARK,
            "environment",
            f"it sets {name}={value}",
            "remove it from the image, unless it is meant for every machine",
        )
        for name, value in sorted(image.variables.items())
    )
    return [first, system, *_mpi(image, host), *_libraries(image, host), *variables, _start(image), last]


def _libc(image: ImageFacts) -> str:
    return "glibc {}.{}".format(*image.libc) if image.libc else "no GNU C library"


def _mpi(image: ImageFacts, host: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings on the image's MPI: its version, a replacement by the host's MPI, and the start by srun."""
    if not image.families:
        other = f": {', '.join(image.other_mpi)} is of no ABI that is known" if image.other_mpi else ""
        remedy = "for one node only, or rebuild it with Open MPI 3 or newer, or MPICH"
        yield Finding(REMARK, "MPI", f"none{other}", remedy)
        return
    titles = [mpi.ABIS[family].title for family in image.families]
    text = f"{' and '.join(titles)} ({', '.join(image.families.values())})"
    yield Finding(OK, "MPI", f"{text}{f', {image.mpi_version}' if image.mpi_version else ''}")
    yield _integrated(image, host)
    plugins, needed = host["pmi"], "pmix" if "openmpi" in image.families else "pmi2"
    if any(plugin.startswith(needed) for plugin in plugins):
        yield Finding(OK, "launcher", f"srun --mpi={needed} starts its ranks")
    elif plugins:
        text = f"its MPI is started by {needed}, and srun has {', '.join(plugins)}: ranks come up as singletons"
        remedy = f"start it with the image's own mpirun, or have the {needed} plugin of Slurm installed"
        yield Finding(PROBLEM, "launcher", text, remedy)


def _integrated(image: ImageFacts, host: Mapping[str, Any]) -> Finding:
    here = {library["family"]: library["library"] for library in host["mpi"]}
    common = [family for family in image.families if family in here]
    if not here:
        text = "not possible: this host has no MPI library that its loader finds"
        return Finding(REMARK, "integrated", text, "load its module")
    if not common:
        names = " and ".join(mpi.ABIS[family].title for family in here)
        text = f"not possible: the host has {names}, which has another ABI"
        remedy = f"build the image with {names} to use the host's fabric; generic runs work without"
        return Finding(REMARK, "integrated", text, remedy)
    known = host["host"]["libc"]
    libc = tuple(map(int, known.removeprefix("glibc ").split(".")[:2])) if known else ()
    if image.libc is None or (libc and image.libc < libc):
        release = hosts.release_for(libc) if len(libc) == 2 else "a newer release"
        text = f"hardly possible: the host's MPI is built for {known}, and the image has {_libc(image)}"
        return Finding(REMARK, "integrated", text, f"build the image on {release} or newer; generic runs work without")
    return Finding(OK, "integrated", f"possible: {here[common[0]]} of the host takes the place of the image's")


def _libraries(image: ImageFacts, host: Mapping[str, Any]) -> Iterator[Finding]:
    for kind, there in (("fabric", host["fabric"]), ("GPU", host["gpus"])):
        libraries = image.libraries.get(kind, ())
        if libraries:
            yield Finding(OK, kind, ", ".join(libraries))
        elif there:
            yield Finding(REMARK, kind, f"no library for the host's {there[0]}", LACKS[kind])


def _start(image: ImageFacts) -> Finding:
    size = f"{number(image.size / (1 << 20), 3)} MiB, " if image.size else ""
    text = f"{size}a container of it starts and ends in {number(image.start, 2)} s"
    if image.start < SLOW_START:
        return Finding(OK, "start", text)
    return Finding(REMARK, "start", text, "see with containercheck doctor whether the runtime unpacks it at each start")


def _run(image: str, names: Sequence[str], place: Workplace, options: Sequence[str]) -> list[Finding]:
    """Run checks with the image, and return a finding for each case of a container.

    :param names: ReFrame's patterns for the checks.
    :param options: other options of the session.
    """
    found: list[Finding] = []

    def conclude(cases: Sequence[Case], problems: Sequence[str]) -> int:
        found.extend(filter(None, map(_of_case, cases)))
        found.extend(Finding(PROBLEM, "run", problem) for problem in problems)
        return 0

    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        # The report of the last session is not overwritten.
        words = [*options, "--image", image, *(word for name in names for word in ("-n", name))]
        try:
            status = run.session(words, replace(place, report_file=Path(directory, "report.json")), conclude)
        except CommandError as error:
            return [Finding(PROBLEM, "run", str(error))]
    if not found:
        found.append(Finding(PROBLEM, "run", f"the session ended with status {status}", "see above"))
    return found


def _of_case(case: Case) -> Finding | None:
    """Return the finding of a container's case, or of a bare case that does not run; None for any other case."""
    if case.variant == "bare":
        failed = case.result not in ("pass", "skip")
        return Finding(REMARK, case.application, f"bare does not run: {first_line(case.reason)}") if failed else None
    if case.result == "skip":
        return Finding(REMARK, short_name(case), f"not run: {first_line(case.skip_reason)}")
    line = view.line_of(case)
    measured = ", ".join(filter(None, [f"{line.metric} {line.value}".strip(), line.rest]))
    if line.state in (states.FAIL, states.UNMEASURED):
        reason = first_line(case.reason)
        why = exported.cause_of(case) or (reason if measured else "")
        return Finding(PROBLEM, short_name(case), measured or reason, why)
    state = REMARK if line.state.color == "doubt" else OK
    return Finding(state, short_name(case), f"{line.state.shown}: {measured}")


def _lines(found: Sequence[Finding]) -> list[str]:
    rows = [(finding.state, finding.topic, finding.text) for finding in found]
    printed = []
    for finding, line in zip(found, columns(rows)):
        printed.append(line)
        if finding.remedy:
            printed.append(f"{'':{len(PROBLEM)}}  -> {finding.remedy}")
    return [*printed, _verdict(found)]


def _verdict(found: Sequence[Finding]) -> str:
    return "fit for this machine" if is_fit(found) else "not fit for this machine"
