"""Where the files of the project are, and where sessions leave theirs: in a checkout, or installed with the package.

Standard library only, Python 3.6 or newer.
"""

from pathlib import Path

#: The package.
PACKAGE = Path(__file__).resolve().parents[1]
#: Whether the package is installed from a wheel, which has the project's files in it, and not used from a checkout.
IS_INSTALLED = (PACKAGE / "project").is_dir()
#: Directory with ``checks``, ``config``, ``images``, ``spack-envs`` and ``easyconfigs``.
ROOT = PACKAGE / "project" if IS_INSTALLED else PACKAGE.parents[1]
#: The application files, their sources and references.
CHECKS = ROOT / "checks"
#: What is common to all sites, as configuration of ReFrame.
COMMON = ROOT / "config" / "common.py"


def work_directory() -> Path:
    """Return the directory where sessions run and leave their files.

    It is the checkout, wherever it is used from; nothing is written into an installed package, and so it is the current
    directory there. ``config/common.py``, which cannot import this, decides likewise.
    """
    return Path.cwd() if IS_INSTALLED else ROOT
