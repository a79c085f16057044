"""What the hosts of a partition say of themselves: asked where jobs run, never of the machine that loads the checks."""

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

#: What a node is asked of its C library: glibc says "glibc 2.36", another one nothing. And of its MPI: what the loader
#: finds by name.
QUESTION = "getconf GNU_LIBC_VERSION"
OF_MPI = r"""(IFS=:; for place in $LD_LIBRARY_PATH; do ls "$place"; done; PATH=$PATH:/sbin ldconfig -p) 2>/dev/null |
    grep -o '\<libmpi[^ /]*\.so\.[^ /]*' | sort -u"""
#: Seconds that a job which asks this may take, and that it is waited for, where the site's ``max_pending_time`` says
#: nothing else: a session cannot go on before.
PROMPT, PATIENCE = 300.0, 1800.0


class UnknownError(Exception):
    """A host did not answer; the message says why, in a few words."""


def libc_of(site: Site) -> Version:
    """Return the version of the GNU C library on a partition's hosts.

    A partition whose jobs do not run on this machine is asked by a job of its own, once in a session.

    :raises UnknownError: it did not answer, or has another C library.
    """
    if site.is_here:
        said, problem = os.confstr("CS_GNU_LIBC_VERSION") or "", ""
    else:
        said, problem = _asked(site.partition)
    found = re.search(r"^glibc (\d+)\.(\d+)", said, re.MULTILINE)
    if not found:
        raise UnknownError(problem or f"{QUESTION} printed {said.strip() or 'nothing'}")
    return int(found[1]), int(found[2])


def mpi_libraries_of(site: Site) -> set[str]:
    """Return the names of the MPI libraries that the loader finds on the hosts of a partition, without modules.

    :raises UnknownError: a partition whose jobs do not run on this machine did not answer.
    """
    said, problem = _asked(site.partition)
    if problem:
        raise UnknownError(problem)
    return {name for name in said.split() if mpi.SONAME.match(name)}


@functools.cache
def _asked(partition: str) -> tuple[str, str]:
    """Return what a node of a partition printed, and why it printed nothing; it is not asked twice."""
    asked = next(one for one in runtime().system.partitions if one.fullname == partition)
    getlogger().info(f"asking a node of {partition} for its C library and MPI")
    # Where nodes see it too.
    stage = Path(runtime().stage_prefix)
    stage.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ask-", dir=stage) as directory, osext.change_dir(directory):
        # Grid Engine takes a relative directory for one below the user's home.
        facts = {"name": "ask-libc", "workdir": directory, "sched_access": asked.access}
        job = Job.create(asked.scheduler, getlauncher("local")(), **facts)
        job.num_tasks, job.options = 1, schedulers.access_of(job)
        job.max_pending_time = Site.of(asked).max_pending_time
        job.time_limit = PROMPT
        bounds = waiting.Bounds(job, PROMPT, job.max_pending_time or PATIENCE)
        try:
            job.prepare([QUESTION, OF_MPI], [asked.local_env])
            job.submit()
            job.wait()
            if bounds.why:
                return "", f"its job, {job.jobid}, was given up: {bounds.why}"
            if job.exception:
                raise job.exception
            return texts.tail(Path(job.stdout)), ""
        except (ReframeError, OSError) as error:
            # Of a command that failed, the last that it said; ReFrame shows all of it.
            said = str(getattr(error, "stderr", "")).strip().splitlines()[-1:] or [str(error)]
            return "", f"its job failed: {said[0]}"
        finally:
            with contextlib.suppress(ReframeError, OSError):
                if job.jobid and not job.scheduler.finished(job):
                    job.cancel()
