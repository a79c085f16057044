"""Build the images of all selected checks once, push them to the site's registry, and list them.

The piece of the site file that ``push`` prints names the images by digest; then nights pull them, and build nothing.
"""

from __future__ import annotations

import collections
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.job import contract, texts
from containercheck.job.build import image_build, image_files
from containercheck.job.build.cache import CacheError
from containercheck.report import table
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.formatting import columns, say, size
from containercheck.session import preconditions, reframe_process
from containercheck.session.progress import View
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.site.extras import NAMESPACE
from containercheck.software import registry
from containercheck.software.images import LINK
from containercheck.software.registry import ORAS, RegistryError

#: Actions of the command, besides ``build``.
PUSH, LIST = "push", "list"
#: Titles of the list, and the digits of a digest in it.
TITLES, DIGITS = ("image", "partition", "key", "digest", "size", "cache", "registry"), 12
#: Reasons why an image is not pushed.
_OBSTACLES = (
    "it is converted for its runtime, or is one of several builds of its recipe, or the site has no image_registry"
)
#: Entries of the cache by the program of the build step.
_ENTRIES: Mapping[str, Any] = {
    contract.IMAGE: image_build.image_of,
    contract.PULL: image_files.image_of_registry,
    contract.READY: image_files.Ready,
}


@dataclass(frozen=True)
class Image:
    """An image that checks need on a partition.

    :ivar partition: name of the partition.
    :ivar name: its recipe, or the path or address that the site names.
    :ivar key: release, architecture and key of a built image; the digest of a pulled one.
    :ivar facts: its facts in the cache; empty if it is not there.
    :ivar target: address in the registry without the tag; empty if it is in none, and is not to be pushed.
    :ivar tag: tag or digest there.
    :ivar runtime: command of the runtime that builds it; empty for an image that is not built.
    :ivar signer: fingerprint of the key that signs it; None for no signature.
    """

    partition: str
    name: str
    key: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    tag: str = ""
    runtime: str = ""
    signer: str | None = None


def main(argv: Sequence[str], place: Workplace) -> int:
    """Build, push or list the images, and return the exit status."""
    options, rest, _ = parsed("images", argv)
    action = contract.LIST_IMAGES if options.action == LIST else contract.BUILD_IMAGES
    cases, problems = _session(action, rest, place)
    without = [case for case in cases if case.variant != "bare" and case.reason != contract.NOTHING_RUN]
    for line in [*(f"skipped: {reason.line}" for reason in table.by_reason(without)), *problems]:
        say(line)
    # From here on, nothing is built.
    os.environ[contract.CACHED_ONLY] = "1"
    images = needed(cases)
    if not images:
        say("error: no selected check needs an image")
        return BROKEN if problems else NOT_JUDGED
    status = _push(images) if options.action == PUSH else _list(images)
    return BROKEN if problems else status


class _Quiet(View):
    """Shows the progress only."""

    def printed(self, line: str) -> str:
        """Return nothing for a line of ReFrame."""
        return ""


def _session(action: str, arguments: Sequence[str], place: Workplace) -> tuple[list[Case], list[str]]:
    """Let ReFrame find the images of the selected cases, or build them; return the cases, and the problems.

    :param action: value of ``images_only``.
    :raises UsageError: the system is unknown, a directory is not writable, or another session runs here.
    :raises ReportError: ReFrame left no report.
    """
    place = preconditions.require(arguments, place, anywhere=True)
    # The report of the last session is not overwritten, and nothing enters the results database.
    place = replace(place, report_file=place.reports / "images" / "run-report.json")
    os.environ["RFM_ENABLE_RESULTS_STORAGE"] = "no"
    with preconditions.held([place.reports, place.stage]), Relay() as relay:
        place.clear()
        place.report.unlink(missing_ok=True)
        words = ["-c", place.checks, *arguments, "-S", f"images_only={action}", f"--report-file={place.report}"]
        reframe_process.reframe(words, place, relay, (), _Quiet())
        stopped = [f"error: stopped by {relay.stopped_by}"] if relay.stopped_by else []
    try:
        cases = collect([load(place.report)])
    except ReportError as error:
        raise ReportError(reframe_process.last_error(place.log) or str(error)) from None
    failed = [case for case in cases if case.result == "fail"]
    reasons = [f"error: {case.application}: {case.fail_reason.removeprefix('reframe error: ')}" for case in failed]
    return cases, [*dict.fromkeys(reasons), *stopped, *reframe_process.left_out(place.log)]


def needed(cases: Iterable[Case]) -> list[Image]:
    """Return the images that cases need, each once for a partition, sorted by partition and name."""
    found: dict[str, Image] = {}
    for case in cases:
        reported = case.provenance.get(contract.IMAGES) or {}
        for words in reported.get("programs", ()):
            key = repr((case.partition, words, reported["registry"]))
            found[key] = found.get(key) or _image(case.partition, words, reported["registry"], reported["key"])
    return sorted(found.values(), key=lambda image: (image.partition, image.name))


def _image(partition: str, words: Sequence[str], address: str | None, signer: str | None) -> Image:
    """Return an image with its state in the cache.

    :param words: those of the program of the build step: an option with the owners of caches, its name, its argument.
    :param address: registry of the site; None for none.
    :param signer: fingerprint of the key that signs its images; None for no signature.
    """
    *options, program, argument = words
    os.environ[contract.CACHE_OWNERS] = "".join(options).partition("=")[2]
    parts = json.loads(argument)
    # Only the image of a check itself, and not that of one of several compared sides, can be named in a site file.
    is_pushed, reference = parts.pop("link") == LINK and bool(address), parts.get("reference", "")
    image = Image(partition, parts.get("name") or texts.without_credentials(reference or parts["image"]))
    try:
        entry = _ENTRIES[program](**parts)
        if program == contract.IMAGE:
            image = replace(image, key=entry.path.stem[len(image.name) + 1 :], runtime=parts["runtime"], signer=signer)
            # With another signature it is another image.
            tag = f"{image.key}-{signer[-8:].lower()}" if signer else image.key
            image = replace(image, tag=tag, target=f"{address}/{image.name.lower()}" if is_pushed else "")
        elif reference.startswith(ORAS):
            target, _, digest = reference.rpartition("@")
            image = replace(image, name=target, key=_shortened(digest), tag=digest, target=target)
        entry.ensure()
        return replace(image, facts=entry.facts())
    except CacheError:
        return image


def _shortened(digest: str) -> str:
    return digest.rpartition(":")[2][:DIGITS]


def _list(images: Sequence[Image]) -> int:
    """Print a line for each image, and return the exit status."""
    rows, problem = [], ""
    for image in images:
        there = "?" if image.target else "-"
        try:
            if image.target and not problem:
                there = _shortened(registry.digest_of(image.target, image.tag) or "no")
        except RegistryError as error:
            problem = str(error)
        digest, amount = image.facts.get("sha256"), image.facts.get("bytes")
        cached = (_shortened(digest or "-"), size(amount) if amount else "-", "yes" if image.facts else "no")
        rows.append((image.name, image.partition, image.key, *cached, there))
    print("\n".join(columns([TITLES, *rows])), flush=True)
    if problem:
        say(f"error: {problem}")
    return NOT_JUDGED if problem else FINE


def _push(images: Sequence[Image]) -> int:
    """Push the images that a site file can name, print its piece that names them, and return the exit status."""
    built = [image for image in images if image.runtime and image.facts]
    builds = collections.Counter((image.partition, image.target) for image in built)
    named: dict[str, dict[str, str]] = {}
    for image in built:
        if not image.target or builds[image.partition, image.target] > 1:
            say(f"{image.name} {image.key} is not pushed: {_OBSTACLES}")
            continue
        try:
            path = Path(image.facts["path"])
            reference = registry.push(path, image.runtime, image.target, image.tag, image.signer)
        except RegistryError as error:
            say(f"error: {image.name}: {error}")
            return BROKEN
        say(f"{image.name} {image.key} is in the registry{f', signed by {image.signer}' if image.signer else ''}")
        named.setdefault(image.partition, {})[image.name] = reference
    if not named:
        say("error: nothing is pushed: name the registry in the site's extras, image_registry")
        return BROKEN
    for partition, references in named.items():
        piece = json.dumps({"images": references}, indent=4)
        print(f"\nextras of the partition {partition} in the site file, for {NAMESPACE!r}:\n{piece}", flush=True)
    return FINE
