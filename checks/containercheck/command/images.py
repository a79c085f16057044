"""Build the images of all selected checks once, push them to the site's registry, and list them.

The piece of the site file that ``push`` prints names the images by digest; then nights pull them, and build nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, WRONG_USAGE, parsed
from containercheck.job import contract, texts
from containercheck.job.build import image_build, image_files
from containercheck.job.build.cache import CacheError
from containercheck.report import table
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.formatting import columns, count, say, size, speak_as
from containercheck.session import preconditions, reframe_process
from containercheck.session.progress import View
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.session.usage import UsageError
from containercheck.site.extras import NAMESPACE
from containercheck.software import registry
from containercheck.software.images import LINK
from containercheck.software.registry import ORAS, RegistryError

#: Actions of the command.
BUILD, PUSH, LIST = "build", "push", "list"
#: Titles of the list, and the digits of a digest in it.
TITLES, DIGITS = ("image", "partition", "key", "digest", "size", "cache", "registry"), 12
#: Entries of the cache by the program of the build step.
_ENTRIES: Mapping[str, Any] = {
    contract.IMAGE: image_build.image_of,
    contract.PULL: image_files.image_of_registry,
    contract.READY: image_files.Ready,
}


@dataclass(frozen=True)
class Need:
    """The program of the build step for an image that cases need.

    :ivar partition: name of their partition.
    :ivar program: name of the program.
    :ivar argument: its argument, in JSON.
    :ivar is_converted: whether the image is then converted for another kind of runtime.
    """

    partition: str
    program: str
    argument: str
    is_converted: bool


@dataclass(frozen=True)
class Image:
    """An image that checks need on a partition.

    :ivar partition: name of the partition.
    :ivar checks: names of the checks.
    :ivar name: its recipe, or the path or address that the site names.
    :ivar key: release, architecture and key of a built image; the digest of a pulled one.
    :ivar runtime: command of the runtime that builds it; empty for an image that is not built.
    :ivar target: address in the registry without the tag; empty if it belongs into none.
    :ivar tag: tag or digest there.
    :ivar signer: fingerprint of the key that signs it; None for no signature.
    :ivar facts: its facts in the cache; empty if it is not there.
    :ivar obstacle: reason why it is not pushed; empty if it can be.
    :ivar reference: name with the digest of a pushed image, as a site file names it.
    """

    partition: str
    checks: tuple[str, ...]
    name: str
    key: str = ""
    runtime: str = ""
    target: str = ""
    tag: str = ""
    signer: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    obstacle: str = ""
    reference: str = ""


def main(argv: Sequence[str], place: Workplace) -> int:
    """Build, push or list the images, and return the exit status."""
    speak_as("images")
    options, rest, _ = parsed("images", argv)
    try:
        cases, problems = _session(
            contract.LIST_IMAGES if options.action == LIST else contract.BUILD_IMAGES, rest, place
        )
        system = reframe_process.configuration(rest, place).system
    except (UsageError, preconditions.Taken) as error:
        say(f"error: {error}")
        return WRONG_USAGE
    except ReportError as error:
        say(f"error: {error}")
        return NOT_JUDGED
    extras = {each["name"]: (each.get("extras") or {}).get(NAMESPACE) or {} for each in system["partitions"]}
    # From here on, nothing is built.
    os.environ[contract.CACHED_ONLY] = "1"
    needed = [image_of(need, checks, extras[need.partition]) for need, checks in needs(cases).items()]
    for line in [*table.skips([case for case in cases if case.reason != contract.NOTHING_RUN]), *problems]:
        say(line)
    if not needed:
        say("error: no selected check needs an image")
        return BROKEN if problems else NOT_JUDGED
    status = _push(needed, extras) if options.action == PUSH else _list(needed)
    return BROKEN if problems else status


class _Quiet(View):
    """Shows the progress only."""

    def printed(self, line: str) -> str:
        """Return nothing for a line of ReFrame."""
        return ""


def _session(action: str, arguments: Sequence[str], place: Workplace) -> tuple[list[Case], list[str]]:
    """Let ReFrame find the images of the selected cases, or build them; return the cases, and the problems.

    :param action: value of ``images_only``.
    :raises UsageError: there is no such system, or a directory is not writable.
    :raises Taken: another session runs here.
    :raises ReportError: ReFrame left no report.
    """
    place, stage = preconditions.require(arguments, place, anywhere=True)
    # The report of the last session is not overwritten, and nothing enters the results database.
    place = replace(place, report_file=place.reports / "images" / "run-report.json")
    os.environ["RFM_ENABLE_RESULTS_STORAGE"] = "no"
    preconditions.require_writable([place.reports, stage])
    with preconditions.held([place.reports, stage]), Relay() as relay:
        place.clear()
        place.report.unlink(missing_ok=True)
        words = ["-c", place.checks, *arguments, "-S", f"images_only={action}", f"--report-file={place.report}"]
        reframe_process.reframe(words, place, relay, (), _Quiet())
        stopped = [f"error: stopped by {relay.stopped_by}"] if relay.stopped_by else []
    try:
        cases = collect([load(place.report)])
    except ReportError as error:
        raise ReportError(reframe_process.last_error(place.log) or str(error)) from None
    failed: dict[str, list[str]] = {}
    for case in cases:
        if case.result == "fail":
            failed.setdefault(case.fail_reason, []).append(case.application)
    reasons = [f"error: {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in failed.items()]
    return cases, [*reasons, *stopped, *reframe_process.left_out(place.log)]


def needs(cases: Iterable[Case]) -> dict[Need, list[str]]:
    """Return the names of the checks that need each image."""
    found: dict[Need, list[str]] = {}
    for case in cases:
        programs = case.provenance.get(contract.IMAGES, ())
        is_converted = any(program == contract.CONVERT for program, _ in programs)
        for program, argument in programs:
            if program != contract.CONVERT:
                checks = found.setdefault(Need(case.partition, program, argument, is_converted), [])
                checks += [case.application] if case.application not in checks else []
    return found


def image_of(need: Need, checks: Sequence[str], extras: Mapping[str, Any]) -> Image:
    """Return an image with its state in the cache.

    :param checks: names of the checks that need it.
    :param extras: those of the partition, as the site file has them.
    """
    parts = json.loads(need.argument)
    link, reference = parts.pop("link"), parts.get("reference", "")
    name = parts.get("name") or texts.without_credentials(reference or parts["image"])
    image = Image(need.partition, tuple(checks), name, obstacle="the site names it")
    if owners := extras.get("cache_owners"):
        os.environ[contract.CACHE_OWNERS] = ",".join(map(str, owners))
    try:
        entry = _ENTRIES[need.program](**parts)
        if need.program == contract.IMAGE:
            image = _built(image, parts["runtime"], entry.path.stem[len(name) + 1 :], extras)
            of_others = "it is for one of several compared sides" if link != LINK else ""
            image = replace(image, obstacle=of_others or ("it is converted" if need.is_converted else ""))
        elif reference.startswith(ORAS):
            target, _, digest = reference.rpartition("@")
            image = replace(image, name=target, key=_shortened(digest), tag=digest, target=target)
        entry.ensure()
        return replace(image, facts=entry.facts())
    except CacheError:
        return image


def _built(image: Image, runtime: str, key: str, extras: Mapping[str, Any]) -> Image:
    """Return an image of a recipe with its place in the site's registry."""
    address, signer = extras.get("image_registry"), extras.get("image_key")
    # An image without the signature is another one.
    tag = f"{key}-{signer[-8:].lower()}" if signer else key
    target = f"{address}/{image.name.lower()}" if address else ""
    return replace(image, key=key, runtime=runtime, tag=tag, target=target, signer=signer)


def _shortened(digest: str) -> str:
    return digest.rpartition(":")[2][:DIGITS]


def _list(needed: Sequence[Image]) -> int:
    """Print a line for each image, and return the exit status."""
    rows, problem = [], ""
    for image in needed:
        there = "?" if problem else "-"
        if image.target and not problem:
            try:
                there = _shortened(registry.digest_of(image.target, image.tag) or "no")
            except RegistryError as error:
                problem, there = str(error), "?"
        digest, amount = image.facts.get("sha256"), image.facts.get("bytes")
        cached = (_shortened(digest or "-"), size(amount) if amount else "-", "yes" if image.facts else "no")
        rows.append((image.name, image.partition, image.key, *cached, there))
    print("\n".join(columns([TITLES, *rows])), flush=True)
    if problem:
        say(f"error: {problem}")
    return NOT_JUDGED if problem else FINE


def _push(needed: Sequence[Image], extras: Mapping[str, Mapping[str, Any]]) -> int:
    """Push the images that a site file can name, print its piece that names them, and return the exit status."""
    pushed: list[Image] = []
    for image in needed:
        if image.obstacle:
            say(f"{image.name} ({', '.join(image.checks)}) is not pushed: {image.obstacle}")
        elif not image.target:
            say(f"error: {image.partition} names no registry: set image_registry in the site's extras")
            return BROKEN
        elif image.facts:
            try:
                pushed.append(_pushed(image))
            except RegistryError as error:
                say(f"error: {image.name}: {error}")
                return BROKEN
    for partition in dict.fromkeys(image.partition for image in pushed):
        images = [image for image in pushed if image.partition == partition]
        print(f"\n# extras of the partition {partition} in the site file:\n{site_piece(images, extras[partition])}")
    return FINE


def _pushed(image: Image) -> Image:
    """Push an image, print a line, and return it with its name in the registry.

    :raises RegistryError: it cannot be signed, or the registry does not take it.
    """
    properties = {name: str(value) for name, value in image.facts.items() if name in ("recipe", "release", "mpi")}
    pushed = registry.push(Path(image.facts["path"]), image.runtime, image.target, image.tag, properties, image.signer)
    if pushed.packages is None:
        done = "is there already"
    else:
        bill = f"a bill of {count(pushed.packages, 'package')}" if pushed.packages else "no bill of packages"
        done = f"pushed with {bill}, {f'signed by {image.signer}' if image.signer else 'not signed'}"
    say(f"{image.name} {image.tag}: {done}")
    return replace(image, reference=pushed.reference)


def site_piece(pushed: Sequence[Image], extras: Mapping[str, Any]) -> str:
    """Return the piece of a site file that names images of a partition by recipe, or by check if a recipe has several.

    :param extras: those of the partition; their other images stay.
    """
    recipes = [image.name for image in pushed]
    images = {**(extras.get("images") or {})}
    software: dict[str, Any] = {}
    for image in pushed:
        if recipes.count(image.name) == 1:
            images[image.name] = image.reference
        else:
            software.update({check: {"image": image.reference} for check in image.checks})
    named = {"images": images, "software": software}
    return json.dumps({NAMESPACE: {key: part for key, part in named.items() if part}}, indent=4)
