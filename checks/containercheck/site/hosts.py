"""The hosts of a partition: their C library and MPI, and the release of Debian that suits them.

The commands run where jobs run, not on the machine that loads the checks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from reframe.core.backends import getlauncher
from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime
from reframe.core.schedulers import Job
from reframe.utility import osext

from containercheck.job import mpi, texts
from containercheck.site import schedulers, waiting
from containercheck.site.sites import RELEASES, Site

Version = tuple[int, int]

#: Command that prints the version of the C library: "glibc 2.36", or nothing for another library.
QUESTION = "getconf GNU_LIBC_VERSION"
#: Command that prints the names of the MPI libraries that the loader finds.
OF_MPI = r"""(IFS=:; for place in $LD_LIBRARY_PATH; do ls "$place"; done; PATH=$PATH:/sbin ldconfig -p) 2>/dev/null |
    grep -o '\<libmpi[^ /]*\.so\.[^ /]*' | sort -u"""
#: The version in the output.
_VERSION = re.compile(r"^glibc (\d+)\.(\d+)", re.MULTILINE)
#: Time limit of the job that runs these commands, in seconds.
PROMPT = 300.0
#: Longest wait for that job in the queue, without which a session cannot go on; the site may set another.
PATIENCE = "30m"


class UnknownError(Exception):
    """A host did not answer; the message says why, in a few words."""


class UnseenError(UnknownError):
    """A host could not answer, as it does not see the stage directory; the message says what to do."""


class GivenUpError(UnknownError):
    """A host did not answer, as its job waited too long; the message says how long."""


@dataclass(frozen=True)
class Answer:
    """The answer of a node.

    :ivar output: output of the commands.
    :ivar error: error in place of the output; None for none.
    """

    output: str = ""
    error: UnknownError | None = None


def release_for(version: Version) -> str:
    """Return the release of images for hosts with this C library: the oldest whose library is not older.

    The host's MPI then finds the symbols that it needs in the image (the integrated variant), and the image runs on
    most other hosts too. For hosts that are newer than all releases, it is the newest release.
    """
    return next((name for name, libc in RELEASES.items() if libc >= version), [*RELEASES][-1])


def libc_of(site: Site) -> Version:
    """Return the version of the GNU C library on a partition's hosts.

    If its jobs do not run on this machine, a job asks one of its nodes, once in a session, or twice where that fails.

    :raises UnseenError: the node does not see the stage directory.
    :raises UnknownError: the node did not answer for another reason, or has another C library.
    """
    output = os.confstr("CS_GNU_LIBC_VERSION") or "" if site.is_here else _output_of(site)
    version = _VERSION.search(output)
    if not version:
        raise UnknownError(f"{QUESTION} printed {output.strip() or 'nothing'}")
    return int(version[1]), int(version[2])


def mpi_libraries_of(site: Site) -> set[str]:
    """Return the names of the MPI libraries that the loader finds on the hosts of a partition, without modules.

    :raises UnknownError: a partition whose jobs do not run on this machine did not answer.
    """
    return {name for name in _output_of(site).split() if mpi.SONAME.match(name)}


def _output_of(site: Site) -> str:
    """Return the output of the commands on a node of a partition.

    :raises UnknownError: the node did not answer.
    """
    answer = ask(site.partition)
    if answer.error:
        raise answer.error
    return answer.output


@functools.cache
def ask(name: str) -> Answer:
    """Return the answer of a node of a partition; another job asks where the first one gets no answer.

    A job that waited in vain is not repeated.
    """
    answer = _ask_once(name)
    if _VERSION.search(answer.output) or isinstance(answer.error, GivenUpError):
        return answer
    return _ask_once(name)


def _ask_once(name: str) -> Answer:
    """Run the commands in a job on a node of a partition, and return its answer."""
    partition = next(candidate for candidate in runtime().system.partitions if candidate.fullname == name)
    getlogger().info(f"asking a node of {name} for its C library and MPI")
    # The nodes see the stage directory too.
    stage = Path(runtime().stage_prefix)
    stage.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ask-", dir=stage) as directory, osext.change_dir(directory):
        # Grid Engine reads a relative directory as one below the user's home.
        facts = {"name": "ask-libc", "workdir": directory, "sched_access": partition.access}
        job = Job.create(partition.scheduler, getlauncher("local")(), **facts)
        job.num_tasks, job.options = 1, schedulers.access_of(job)
        job.max_pending_time = Site.of(partition).max_pending_time or PATIENCE
        job.time_limit = PROMPT
        watch = waiting.Watch(job)
        try:
            job.prepare([QUESTION, OF_MPI], [partition.local_env])
            job.submit()
            job.wait()
            if watch.why:
                return Answer(error=GivenUpError(f"its job, {job.jobid}, was given up: {watch.why}"))
            if job.exception:
                raise job.exception
            if not waiting.appears(Path(directory, job.stdout).exists):
                return Answer(error=UnseenError(waiting.unseen(stage)))
            return Answer(texts.tail(Path(job.stdout)))
        except (ReframeError, OSError) as error:
            # The last line of a failed command; ReFrame's message has all of them.
            message = str(getattr(error, "stderr", "")).strip().splitlines()[-1:] or [str(error)]
            kind = GivenUpError if "maximum pending time" in message[0] else UnknownError
            return Answer(error=kind(f"its job failed: {message[0]}"))
        finally:
            with contextlib.suppress(ReframeError, OSError):
                if job.jobid and not job.scheduler.finished(job):
                    job.cancel()
