"""What a session was asked for beside its selection: configuration files and variables, to ask for the same again."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from containercheck.node import project

#: What ReFrame calls the configuration that it brings, and the file that sessions name by themselves.
BUILTIN, COMMON = "<builtin>", str(project.COMMON)
#: The variable with which a pass goes on from earlier rounds; what it names is gone afterwards.
GOES_ON = "earlier"


@dataclass(frozen=True)
class Asked:
    """What a person would say to ask for the same again.

    :ivar files: configuration files for ``RFM_CONFIG_FILES``, in their order; empty where the options name them.
    :ivar options: arguments of ci/run: configuration files (-C), and variables of checks (-S).
    :ivar goes_on: whether the session went on with rounds of an earlier one.
    """

    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    goes_on: bool = False

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Asked:
        """Read ReFrame's ``session_info``; what that does not tell is left out."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        # An option without its value is ReFrame's to complain about.
        parser.add_argument("-C", "--config-file", dest="files", action="append", nargs="?", default=[])
        parser.add_argument("-S", "--setvar", dest="variables", action="append", nargs="?", default=[])
        try:
            words = shlex.split(info.get("cmdline") or "")
        except ValueError:
            words = []
        known, _ = parser.parse_known_args(words[1:])
        variables = [one for one in known.variables if one]
        own = [one for one in variables if one.partition("=")[0].rpartition(".")[2] != GOES_ON]
        options = [word for one in own for word in ("-S", one)]
        files = [str(name) for name in info.get("config_files") or () if name != BUILTIN]
        if any(known.files):
            # Then RFM_CONFIG_FILES did not count, and with it what ci/run adds there.
            options, files = [*(word for name in files for word in ("-C", name)), *options], []
        elif files[:1] == [COMMON]:
            files = files[1:]
        return cls(tuple(files), tuple(options), len(own) < len(variables))
