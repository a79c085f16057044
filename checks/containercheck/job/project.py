"""Directories of the project's files and of those that sessions leave: in a checkout, or installed with the package.

Standard library only, Python 3.6 or newer.
"""

from pathlib import Path

#: Directory of the package.
PACKAGE = Path(__file__).resolve().parents[1]
#: Whether the package is installed from a wheel, which has the project's files in it, and not used from a checkout.
IS_INSTALLED = (PACKAGE / "project").is_dir()
#: Directory with ``checks``, ``config``, ``images``, ``spack-envs`` and ``easyconfigs``.
ROOT = PACKAGE / "project" if IS_INSTALLED else PACKAGE.parents[1]
#: Directory of the application files, their sources and references.
CHECKS = ROOT / "checks"
#: Directory of the definition files of images.
RECIPES = ROOT / "images"
#: Configuration of ReFrame that is common to all sites.
COMMON = ROOT / "config" / "common.py"


def work_directory() -> Path:
    """Return the directory where sessions run and leave their files.

    It is the checkout, wherever it is used from; nothing is written into an installed package, and so it is the current
    directory there. ``config/common.py``, which cannot import this, decides likewise.
    """
    return Path.cwd() if IS_INSTALLED else ROOT
