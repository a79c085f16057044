"""Read the configuration files and variables of a session's command line, so that it can be repeated."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from containercheck.node import project

#: ReFrame's name of its own configuration, and the configuration file that ci/run adds.
BUILTIN, COMMON = "<builtin>", str(project.COMMON)
#: The variable that names the report with earlier rounds to go on from.
GOES_ON = "earlier"


@dataclass(frozen=True)
class Asked:
    """The configuration files and options that repeat a session.

    :ivar files: configuration files for ``RFM_CONFIG_FILES``, in their order; empty where the options name them.
    :ivar options: arguments of ci/run: configuration files (-C), and variables of checks (-S).
    :ivar goes_on: whether the session went on with rounds of an earlier one.
    """

    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    goes_on: bool = False

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Asked:
        """Read ReFrame's ``session_info``; what is missing there is left out."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        # ReFrame reports an option without its value.
        parser.add_argument("-C", "--config-file", dest="files", action="append", nargs="?", default=[])
        parser.add_argument("-S", "--setvar", dest="variables", action="append", nargs="?", default=[])
        try:
            words = shlex.split(info.get("cmdline") or "")
        except ValueError:
            words = []
        arguments, _ = parser.parse_known_args(words[1:])
        variables = [text for text in arguments.variables if text]
        names = [text.partition("=")[0].rpartition(".")[2] for text in variables]
        kept = [text for text, name in zip(variables, names) if name != GOES_ON]
        options = [word for text in kept for word in ("-S", text)]
        files = [str(name) for name in info.get("config_files") or () if name != BUILTIN]
        if any(arguments.files):
            # With -C ReFrame ignores RFM_CONFIG_FILES, and with it the file that ci/run adds there.
            options, files = [*(word for name in files for word in ("-C", name)), *options], []
        elif files[:1] == [COMMON]:
            files = files[1:]
        return cls(tuple(files), tuple(options), GOES_ON in names)
