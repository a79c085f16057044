"""The values that one phase of a check hands to the next ones: frozen, and complete when they exist."""

from __future__ import annotations

from dataclasses import dataclass

from containercheck.application.allowance import Allowance
from containercheck.results.row import Record
from containercheck.sides.sides import Needs
from containercheck.site.extras import Software
from containercheck.site.waiting import Watch
from containercheck.software import Provision


@dataclass(frozen=True)
class Prepared:
    """Keep the results of the setup phase.

    :ivar software: the site's own software for this check; an empty value for none.
    :ivar program: the bare program's command in the job.
    :ivar program_in_image: the program in the image.
    :ivar allowance: time and node-hours of the job.
    :ivar watch: watch over the job until its end.
    :ivar runtime_needs: modules and variables of the container runtime.
    :ivar provision: software, image and published input, and the commands that make them available.
    """

    software: Software
    program: str
    program_in_image: str
    allowance: Allowance
    watch: Watch
    runtime_needs: Needs
    provision: Provision


@dataclass(frozen=True)
class Finished:
    """Keep the state and the record of a job that has ended.

    :ivar state: the scheduler's state of the job; None if it is not known.
    :ivar record: the record of its runs, with the verdict; an empty one in a dry run.
    """

    state: str | None
    record: Record
