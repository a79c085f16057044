"""Puts the files that the library works with into its wheel: there they lie in the package (see job/contract.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What sessions need of the checkout beside the library. All else that lies in checks/ is the library itself.
FILES = ("checks/*.py", "checks/src", "checks/references", "config", "images", "spack-envs", "easyconfigs")


class ProjectFiles(BuildHookInterface):
    """What hatchling calls when it builds a wheel.

    Its own tables can say where a directory goes, but not that of ``checks`` one part goes here and another there.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, each below ``containercheck/project``.

        :param version: "editable" where the library is used from the checkout, and needs no copies.
        """
        if version == "editable":
            return
        root = Path(self.root)
        for path in sorted(path for pattern in FILES for path in root.glob(pattern)):
            build_data["force_include"][str(path)] = f"containercheck/project/{path.relative_to(root)}"
