"""Where the files of the project are: those of a checkout, or those that were installed with the package.

Standard library only, Python 3.6 or newer.
"""

from pathlib import Path

#: The package.
PACKAGE = Path(__file__).resolve().parents[1]
#: Directory with ``checks``, ``config``, ``images``, ``spack-envs`` and ``easyconfigs``.
ROOT = PACKAGE / "project" if (PACKAGE / "project").is_dir() else PACKAGE.parents[1]
#: The application files, their sources and references.
CHECKS = ROOT / "checks"
