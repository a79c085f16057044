"""Ask a host of a partition for its facts by a short job, and choose the release of Debian for the hosts."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime
from reframe.core.schedulers import Job
from reframe.utility import osext

from containercheck.job.inventory import inventory
from containercheck.site import jobs, node_commands
from containercheck.site.sites import RELEASES, Site

Version = tuple[int, int]

#: Version of the GNU C library, as a host states it.
_VERSION = re.compile(r"^glibc (\d+)\.(\d+)")
#: File with the facts of a host, in the directory of the job that asks.
_FACTS = "inventory.json"
#: Time limit of that job, in seconds.
PROMPT = 300.0
#: Longest wait for that job in the queue, without which a session cannot go on; the site may set another.
PATIENCE = "30m"


class UnknownError(Exception):
    """Report a host that did not answer; the message has the reason, in a few words."""


class UnseenError(UnknownError):
    """Report a host that could not answer because it does not see the stage directory; the message has the remedy."""


@dataclass(frozen=True)
class HostAnswer:
    """Hold the answer of a host.

    :ivar facts: facts as ``job.inventory.inventory`` returns them; empty if they are not known.
    :ivar error: reason why they are not known; None if they are.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    error: UnknownError | None = None


@dataclass(frozen=True)
class PartitionNodes:
    """Hold the facts of a partition's nodes, or the reason why they are not known.

    :ivar partition: full name of the partition.
    :ivar is_here: whether its jobs run on this machine.
    :ivar facts: facts as ``job.inventory.inventory`` returns them; empty if they are not known.
    :ivar problem: reason why they are not known; empty if they are.
    :ivar platforms: container runtimes that the site's file names for the partition.
    """

    partition: str
    is_here: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    platforms: Sequence[str] = ()


def release_for(version: Version) -> str:
    """Return the release of images for hosts with this C library: the oldest with a library that is not older.

    The image then has the symbols that the host's MPI needs (the integrated variant), and runs on most other hosts
    too. For hosts that are newer than all releases, it is the newest release.
    """
    return next((name for name, libc in RELEASES.items() if libc >= version), [*RELEASES][-1])


def libc_of(site: Site) -> Version:
    """Return the version of the GNU C library on a partition's hosts.

    If its jobs do not run on this machine, a job asks one of its nodes, once in a session.

    :raises UnseenError: the node does not see the stage directory.
    :raises UnknownError: the node did not answer for another reason, or has another C library.
    """
    if site.is_here:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    else:
        answer = ask(site.partition)
        if answer.error:
            raise answer.error
        libc = answer.facts["host"]["libc"]
    version = _VERSION.search(libc)
    if not version:
        raise UnknownError(f"its C library is {libc or 'not GNU'}")
    return int(version[1]), int(version[2])


@functools.cache
def ask(name: str) -> HostAnswer:
    """Return the answer of a node of a partition."""
    return ask_all([name])[name]


def ask_all(names: Sequence[str], job_options: Sequence[str] = (), exclusive: bool = False) -> dict[str, HostAnswer]:
    """Return the answer of a node of each partition, by its full name; the jobs wait at the same time.

    :param job_options: further options of the jobs, as in a job script.
    :param exclusive: whether a job has all processors of its node, if the partition's jobs do.
    """
    # The nodes see the stage directory too.
    stage = Path(runtime().stage_prefix)
    stage.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ask-", dir=stage) as place, contextlib.ExitStack() as entered:
        asked = [
            entered.enter_context(_Question(name, Path(place, str(number)), job_options, exclusive))
            for number, name in enumerate(names)
        ]
        return dict(zip(names, [question.answer() for question in asked]))


class _Question:
    """Submit a job that asks a node of a partition for its facts; a context in which it waits or runs."""

    def __init__(self, name: str, place: Path, job_options: Sequence[str], exclusive: bool) -> None:
        """Submit the job.

        :param place: directory of the job, which is made.
        """
        getlogger().info(f"asking a node of {name} for its C library")
        partition = next(candidate for candidate in runtime().system.partitions if candidate.fullname == name)
        site = Site.of(partition)
        # Grid Engine reads a relative directory as one below the user's home.
        facts = {"name": "ask", "workdir": str(place), "sched_access": partition.access, "sched_options": job_options}
        self._job = job = Job.create(partition.scheduler, getlauncher("local")(), **facts)
        job.num_tasks, job.options = 1, jobs.access_of(job)
        job.exclusive_access = exclusive and site.exclusive
        job.max_pending_time = site.max_pending_time or PATIENCE
        job.time_limit = PROMPT
        self._place, self._error = place, UnknownError("its job was not submitted")
        # The site's container runtime may come with a module.
        of_runtime = partition.container_environs.get(partition.container_runtime)
        command = f"{node_commands.in_job(site, 'inventory')} >{_FACTS}"
        with self._explained():
            environments = [partition.local_env, *filter(None, [of_runtime])]
            job.prepare([*node_commands.require_python(site), command], environments)
            job.submit()

    def answer(self) -> HostAnswer:
        """Return the answer, once the job has ended."""
        job = self._job
        if not job.jobid:
            return HostAnswer(error=self._error)
        with self._explained():
            job.wait()
            if job.exception:
                raise job.exception
            stderr = self._place / job.stderr
            if not jobs.appears(stderr.exists):
                raise UnseenError(jobs.unseen(self._place.parents[1]))
            facts = self._place / _FACTS
            if not facts.exists() or not facts.stat().st_size:
                raise UnknownError(f"its job failed: {jobs.last_line(stderr)}")
            return HostAnswer(json.loads(facts.read_text()))
        return HostAnswer(error=self._error)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Run a part of this in the job's directory, and note an error, instead of raising it."""
        try:
            self._place.mkdir(exist_ok=True)
            with osext.change_dir(str(self._place)):
                yield
        except UnknownError as error:
            self._error = error
        except (ReframeError, OSError, ValueError) as error:
            # The last line of a failed command; ReFrame's message has all of them.
            message = str(getattr(error, "stderr", "")).strip().splitlines()[-1:] or [str(error)]
            self._error = UnknownError(f"its job failed: {message[0]}")

    def __enter__(self) -> _Question:
        """Return the question."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel a job that still waits or runs."""
        with contextlib.suppress(ReframeError, OSError):
            if self._job.jobid and not self._job.scheduler.finished(self._job):
                self._job.cancel()


def main() -> None:
    """Ask a node of each partition, for a command that is not a session of ReFrame; write the answers into a file.

    The first argument is the path of that file, the second the options of the jobs, in JSON. The others are ReFrame's,
    which reads its configuration by them.
    """
    from reframe.frontend import cli

    file, job_options = Path(sys.argv.pop(1)), json.loads(sys.argv.pop(1))
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise
    jobs.leave_outer_job()
    partitions = {partition.fullname: partition for partition in runtime().system.partitions}
    local = {name for name, partition in partitions.items() if partition.scheduler.registered_name == "local"}
    # A job loads the module of a runtime, also on this machine.
    here = {name for name in local if not any(each.modules for each in partitions[name].container_environs.values())}
    others = [name for name in partitions if name not in here]
    answers = {**dict.fromkeys(here, HostAnswer(inventory() if here else {})), **ask_all(others, job_options, True)}
    listed = [
        PartitionNodes(
            name, name in local, answers[name].facts, str(answers[name].error or ""), [*partition.container_environs]
        )
        for name, partition in partitions.items()
    ]
    file.write_text(json.dumps([asdict(nodes) for nodes in listed]))


if __name__ == "__main__":
    main()
