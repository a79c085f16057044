"""Pulls an image from a registry into the cache, once, by its digest.

    python3 checks/containercheck pull --runtime apptainer --cache ~/.cache/containercheck/images --link image.sif \\
        docker://registry.example.org/hpcc@sha256:0d73a23f...

makes ``image.sif`` a link to the image as the runtime keeps it, writes which one it is beside the link
(``contract.IMAGE_RECORD``), and prints its path. Whatever a tag leads to tomorrow, it stays that image; and a job with
many ranks pulls nothing. Who may pull, and through which proxy, the runtime's own settings say.

Standard library only, Python 3.6 or newer.
"""

import argparse
import re
from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.build import cache, images
from containercheck.build.cache import CacheError


class Pulled(cache.FileEntry):
    """An image of a registry.

    :param reference: its address, with ``@sha256:`` and the digest.
    :param directory: of the cache.
    :param runtime: apptainer or singularity.
    """

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name an image file in the site's extras, images"

    def __init__(self, reference: str, directory: Path, runtime: str) -> None:
        """Find its place in the cache.

        :raises CacheError: it is not pinned.
        """
        match = re.fullmatch(r"(?P<address>\w+://\S+?)@sha256:(?P<digest>[0-9a-f]{64})", reference)
        if not match:
            raise CacheError(f"the image {reference} is not pinned: end its name with @sha256:<64 digits>")
        name = re.sub(r"[^\w.-]", "_", match["address"].split("/")[-1])
        super().__init__(name, directory / f"{name}-{match['digest'][:12]}.sif")
        self.reference, self.runtime = reference, runtime

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Pull it.

        :raises CacheError: the registry does not answer, does not have it, or does not give it.
        """
        pulled = work / "image.sif"
        self.run([[self.runtime, "pull", str(pulled), self.reference]])
        return pulled, self.known(pulled)

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, for a check's provenance; it must be there.

        :raises CacheError: it is gone again.
        """
        return {**super().facts(), "reference": self.reference}


def main() -> None:
    """Print the path of the image, or one error and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", required=True, help="apptainer or singularity")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the images")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the image")
    parser.add_argument("reference", help="address@sha256:digest")
    arguments = parser.parse_args()

    def get() -> Dict[str, Any]:
        image = Pulled(arguments.reference, arguments.cache.resolve(), arguments.runtime)
        image.ensure()
        return image.facts()

    images.deliver(get, arguments.link)
