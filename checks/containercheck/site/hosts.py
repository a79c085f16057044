"""Query the hosts of a partition for their C library and their MPI.

The commands run where jobs run, not on the machine that loads the checks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
from pathlib import Path

from reframe.core.backends import getlauncher
from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime
from reframe.core.schedulers import Job
from reframe.utility import osext

from containercheck.node import mpi, texts
from containercheck.site import schedulers, waiting
from containercheck.site.releases import Version
from containercheck.site.sites import Site

#: Command that prints the version of the C library: "glibc 2.36", or nothing for another library.
QUESTION = "getconf GNU_LIBC_VERSION"
#: Command that prints the names of the MPI libraries that the loader finds.
OF_MPI = r"""(IFS=:; for place in $LD_LIBRARY_PATH; do ls "$place"; done; PATH=$PATH:/sbin ldconfig -p) 2>/dev/null |
    grep -o '\<libmpi[^ /]*\.so\.[^ /]*' | sort -u"""
#: The version in the output.
_VERSION = re.compile(r"^glibc (\d+)\.(\d+)", re.MULTILINE)
#: Time limit of the job that runs these commands, in seconds.
PROMPT = 300.0
#: Longest wait for that job, without which a session cannot go on, where the site has no ``max_pending_time``; seconds.
PATIENCE = 1800.0
#: Words on a job that waited for so long: another one would too.
_GIVEN_UP = "was given up"


class UnknownError(Exception):
    """A host did not answer; the message says why, in a few words."""


class UnseenError(UnknownError):
    """A host could not answer, as it does not see the stage directory; the message says what to do."""


def libc_of(site: Site) -> Version:
    """Return the version of the GNU C library on a partition's hosts.

    If its jobs do not run on this machine, a job asks one of its nodes, once in a session, or twice where that fails.

    :raises UnseenError: the node does not see the stage directory.
    :raises UnknownError: the node did not answer for another reason, or has another C library.
    """
    if site.is_here:
        output, problem = os.confstr("CS_GNU_LIBC_VERSION") or "", ""
    else:
        output, problem = _ask(site.partition)
    if problem.startswith(waiting.UNSEEN):
        raise UnseenError(problem)
    version = _VERSION.search(output)
    if not version:
        raise UnknownError(problem or f"{QUESTION} printed {output.strip() or 'nothing'}")
    return int(version[1]), int(version[2])


def mpi_libraries_of(site: Site) -> set[str]:
    """Return the names of the MPI libraries that the loader finds on the hosts of a partition, without modules.

    :raises UnknownError: a partition whose jobs do not run on this machine did not answer.
    """
    output, problem = _ask(site.partition)
    if problem:
        raise UnknownError(problem)
    return {name for name in output.split() if mpi.SONAME.match(name)}


@functools.cache
def _ask(name: str) -> tuple[str, str]:
    """Return the output of the two commands on a node of a partition, and why there is none; ask twice if need be."""
    output, problem = _ask_once(name)
    if _VERSION.search(output) or _GIVEN_UP in problem:
        return output, problem
    return _ask_once(name)


def _ask_once(name: str) -> tuple[str, str]:
    """Return the same; run a single job."""
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
        job.max_pending_time = Site.of(partition).max_pending_time
        job.time_limit = PROMPT
        bounds = waiting.Bounds(job, PROMPT, job.max_pending_time or PATIENCE)
        try:
            job.prepare([QUESTION, OF_MPI], [partition.local_env])
            job.submit()
            job.wait()
            if bounds.why:
                return "", f"its job, {job.jobid}, {_GIVEN_UP}: {bounds.why}"
            if job.exception:
                raise job.exception
            if not waiting.appears(Path(directory, job.stdout)):
                return "", waiting.unseen(stage)
            return texts.tail(Path(job.stdout)), ""
        except (ReframeError, OSError) as error:
            # The last line of a failed command; ReFrame's message has all of them.
            message = str(getattr(error, "stderr", "")).strip().splitlines()[-1:] or [str(error)]
            return "", f"its job failed: {message[0]}"
        finally:
            with contextlib.suppress(ReframeError, OSError):
                if job.jobid and not job.scheduler.finished(job):
                    job.cancel()
