"""Read what the sides of a job saw before the rounds (node/job/observation.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.node import contract


@dataclass(frozen=True)
class Observation:
    """What one side saw.

    :ivar environment: variables, with their value or a fingerprint of it.
    :ivar set_by: by name, the variable of the job by which a runtime sets another one in containers.
    :ivar image_variables: names of the variables that the image sets by itself.
    :ivar limits: soft limits, in the words of /proc.
    :ivar status: capabilities, seccomp and such, in the words of /proc.
    :ivar mounts: type, source and options, by directory.
    :ivar space: size and free bytes, by directory.
    :ivar directories: ``usable``, ``unwritable`` or ``missing``, by path.
    :ivar libc: its name and version.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    set_by: Mapping[str, str] = field(default_factory=dict)
    image_variables: Sequence[str] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cgroup: Sequence[str] = ()
    space: Mapping[str, Sequence[int]] = field(default_factory=dict)
    directories: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    interfaces: Sequence[str] = ()
    devices: Sequence[str] = ()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    kernel: Mapping[str, str] = field(default_factory=dict)
    libc: str = ""
    system: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Observation:
        """Return an observation as the job stored it; fields that it lacks are empty."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})


def read(stagedir: Path, side: str) -> Observation | None:
    """Return what a side saw; None where the job did not record it."""
    try:
        return Observation.from_json(json.loads((stagedir / contract.observed_file(side)).read_text()))
    except (OSError, ValueError):
        return None
