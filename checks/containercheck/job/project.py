"""Define the directories of the project and of sessions' files, for a checkout and for an installed package.

Standard library only, Python 3.6 or newer.
"""

from pathlib import Path

#: Directory of the package.
PACKAGE = Path(__file__).resolve().parents[1]
#: Whether the package is installed from a wheel, which contains the project's files; false in a checkout.
IS_INSTALLED = (PACKAGE / "project").is_dir()
#: Directory with ``checks``, ``config``, ``images``, ``spack-envs`` and ``easyconfigs``.
ROOT = PACKAGE / "project" if IS_INSTALLED else PACKAGE.parents[1]
#: Directory of the application files, their sources and references.
CHECKS = ROOT / "checks"
#: Directory of the definition files of images.
RECIPES = ROOT / "images"
#: Configuration of ReFrame for all sites.
COMMON = ROOT / "config" / "common.py"


def work_directory() -> Path:
    """Return the directory in which sessions run and leave their files.

    This is the checkout, from any current directory. An installed package is never written to, so it is then the
    current directory. ``config/common.py``, which cannot import this module, uses the same rule.
    """
    return Path.cwd() if IS_INSTALLED else ROOT
