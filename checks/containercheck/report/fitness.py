"""Whether an image is fit for a machine: a finding for each topic, with what to do where something is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.job import mpi
from containercheck.job.explain import explanation
from containercheck.report import view
from containercheck.results.cases import Case
from containercheck.results.formatting import number, short_name
from containercheck.session import rank_start
from containercheck.session.image_facts import ImageFacts
from containercheck.session.rank_start import Start
from containercheck.site import hosts

#: How a finding is meant: all is well, worth knowing, or in the way.
FINE, REMARK, PROBLEM = "ok", "note", "PROBLEM"
#: Seconds from which the start of a container is worth a word: a FUSE mount takes a tenth of that.
SLOW_START = 2.0


@dataclass(frozen=True)
class Finding:
    """A finding.

    :ivar state: one of the words above.
    :ivar topic: what it is about.
    :ivar text: what was found.
    :ivar remedy: what to do; empty for nothing.
    """

    state: str
    topic: str
    text: str
    remedy: str = ""


def findings(
    image: ImageFacts, host: Mapping[str, Any], starts: Sequence[Start] = (), not_started: str = ""
) -> list[Finding]:
    """Return the findings, in the order in which a person would look.

    :param host: as ``containercheck.job.inventory.inventory`` returns it.
    :param starts: what came of starting ranks of its MPI.
    :param not_started: why none was started; empty where it was not tried.
    """
    return [
        _architecture(image, host),
        _system(image),
        *_mpi(image, host, any(start.is_plain and start.launcher.startswith("srun") for start in starts)),
        *_ranks(starts),
        *([Finding(REMARK, "ranks", not_started)] if not_started else []),
        *_libraries(image, host),
        *_variables(image),
        _start(image),
        _checks(image),
    ]


def is_fit(found: Sequence[Finding]) -> bool:
    """Return whether nothing is in the way."""
    return all(finding.state != PROBLEM for finding in found)


def _architecture(image: ImageFacts, host: Mapping[str, Any]) -> Finding:
    here = host["processor"]["architecture"]
    if image.architecture in (None, here):
        return Finding(FINE, "architecture", image.architecture or "not stated by the image")
    return Finding(
        PROBLEM,
        "architecture",
        f"{image.architecture}, and this machine is {here}",
        f"build it for {here}, or pull that one",
    )


def _system(image: ImageFacts) -> Finding:
    return Finding(FINE, "system", ", ".join(filter(None, [image.system, _libc(image)])))


def _libc(image: ImageFacts) -> str:
    return "glibc {}.{}".format(*image.libc) if image.libc else "no GNU C library"


def _mpi(image: ImageFacts, host: Mapping[str, Any], by_srun: bool) -> list[Finding]:
    """Return what the image's MPI is, whether the host's can take its place, and whether the launcher can start it.

    :param by_srun: whether srun has started its ranks.
    """
    if not image.families:
        other = f": {', '.join(image.other_mpi)} is of no ABI that is known" if image.other_mpi else ""
        return [
            Finding(
                REMARK, "MPI", f"none{other}", "for one node only, or rebuild it with Open MPI 3 or newer, or MPICH"
            )
        ]
    titles = [mpi.ABIS[family].title for family in image.families]
    text = f"{' and '.join(titles)} ({', '.join(image.families.values())})"
    found = [Finding(FINE, "MPI", f"{text}{f', {image.mpi_version}' if image.mpi_version else ''}")]
    return [*found, _integrated(image, host), *([] if by_srun else _pmi(image, host))]


def _ranks(starts: Sequence[Start]) -> list[Finding]:
    """Return what came of starting ranks: each launcher's, and what is left where none starts them as it is."""
    found = []
    for start in starts:
        if start.is_plain or (start.is_one_job and start.by == rank_start.INSIDE):
            found.append(Finding(FINE, "ranks", f"{start.text}, by {start.launcher}{_inside(start)}"))
        elif start.is_one_job:
            found.append(Finding(REMARK, "ranks", start.text, f"they do start {start.by}"))
        elif any(other.is_one_job and other.nodes == start.nodes for other in starts):
            found.append(Finding(REMARK, "ranks", f"{start.text}, by {start.launcher}", "start it in the other way"))
        else:
            where = "one node" if start.nodes == 1 else f"{start.nodes} nodes"
            text = f"on {where}, by {start.launcher}: {start.text}"
            found.append(Finding(PROBLEM, "ranks", text, "use an image whose MPI is of the host's release"))
    return found


def _inside(start: Start) -> str:
    return ", the image's own, inside one container: on one node only" if not start.is_plain else ""


def _integrated(image: ImageFacts, host: Mapping[str, Any]) -> Finding:
    here = {library["family"]: library["library"] for library in host["mpi"]}
    common = [family for family in image.families if family in here]
    if not here:
        return Finding(
            REMARK, "integrated", "not possible: this host has no MPI library that its loader finds", "load its module"
        )
    if not common:
        names = " and ".join(mpi.ABIS[family].title for family in here)
        return Finding(
            REMARK,
            "integrated",
            f"not possible: the host has {names}, which has another ABI",
            f"build the image with {names} for what a fabric gives; generic runs work without",
        )
    libc = tuple(map(int, host["host"]["libc"].removeprefix("glibc ").split(".")[:2])) if host["host"]["libc"] else None
    if image.libc is None or (libc and image.libc < libc):
        release = hosts.release_for(libc) if libc and len(libc) == 2 else "a newer release"
        return Finding(
            REMARK,
            "integrated",
            f"hardly possible: the host's MPI is built for {host['host']['libc']}, and the image has {_libc(image)}",
            f"build the image on {release} or newer; generic runs work without",
        )
    return Finding(FINE, "integrated", f"possible: {here[common[0]]} of the host takes the place of the image's")


def _pmi(image: ImageFacts, host: Mapping[str, Any]) -> list[Finding]:
    """Return whether srun has the interface by which the image's MPI is started; nothing where there is no srun."""
    plugins = host["pmi"]
    if not plugins:
        return []
    needed = "pmix" if "openmpi" in image.families else "pmi2"
    if any(plugin.startswith(needed) for plugin in plugins):
        return [Finding(FINE, "launcher", f"srun --mpi={needed} starts its ranks")]
    return [
        Finding(
            PROBLEM,
            "launcher",
            f"its MPI is started by {needed}, and srun has {', '.join(plugins)}: ranks come up as singletons",
            f"start it with the image's own mpirun, or have the {needed} plugin of Slurm installed",
        )
    ]


def _libraries(image: ImageFacts, host: Mapping[str, Any]) -> list[Finding]:
    found = []
    for kind, there in (("fabric", host["fabric"]), ("GPU", host["gpus"])):
        libraries = image.libraries.get(kind, ())
        if there and not libraries:
            found.append(
                Finding(
                    REMARK,
                    kind,
                    f"no library for the host's {there[0]}",
                    "generic runs go over Ethernet: install libfabric or UCX in the image"
                    if kind == "fabric"
                    else "the runtime's option for GPUs brings the driver; the image needs the rest",
                )
            )
        elif libraries:
            found.append(Finding(FINE, kind, ", ".join(libraries)))
    return found


def _variables(image: ImageFacts) -> list[Finding]:
    return [
        Finding(
            REMARK,
            "environment",
            f"it sets {name}={value}",
            "remove it from the image, unless it is meant for every machine",
        )
        for name, value in sorted(image.variables.items())
    ]


def _start(image: ImageFacts) -> Finding:
    size = f"{number(image.size / (1 << 20), 3)} MiB, " if image.size else ""
    between = f" ({number(min(image.starts), 2)} to {number(max(image.starts), 2)} s" if image.starts else ""
    text = f"{size}a container of it starts and ends in {number(image.start, 2)} s more than the program on the host"
    text += f"{between} in {len(image.starts)} rounds)" if between else ""
    if image.start < SLOW_START:
        return Finding(FINE, "start", text)
    return Finding(REMARK, "start", text, "see with containercheck doctor whether the runtime unpacks it at each start")


def _checks(image: ImageFacts) -> Finding:
    if not image.checks:
        return Finding(REMARK, "checks", "it has the program of none of our checks")
    return Finding(FINE, "checks", ", ".join(f"{check} ({program})" for check, program in sorted(image.checks.items())))


def of_cases(cases: Sequence[Case]) -> list[Finding]:
    """Return a finding for each case of a container that a session ran with the image, or could not run."""
    found = []
    for case in cases:
        if case.variant == "bare":
            if case.result not in ("pass", "skip"):
                found.append(Finding(REMARK, case.application, f"bare does not run: {_first_line(case.reason)}"))
            continue
        topic = short_name(case)
        if case.result == "skip":
            found.append(Finding(REMARK, topic, f"not run: {_first_line(case.skip_reason)}"))
            continue
        line = view.line_of(case)
        measured = ", ".join(filter(None, [" ".join(filter(None, [line.metric, line.value])), line.rest]))
        if line.state == view.FAILED:
            why = explanation.summary(case.causes) or _first_line(case.reason)
            found.append(Finding(PROBLEM, topic, measured or "it failed", why))
        else:
            state = FINE if line.state in (view.PASSED, view.RAN) else REMARK
            found.append(Finding(state, topic, f"{line.state}: {measured}"))
    return found


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")
