"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import re

import pytest
from site_files import FILES, sites_of, system_of  # noqa: F401


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_site_file_is_read_and_has_the_digests_of_images(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem
    for partition, site in sites_of(path).values():
        assert site.architecture in ("x86_64", "aarch64", "ppc64le")
        assert site.cores and partition.container_runtime
        (runtime, *_) = partition.container_environs
        named = [*(site.images or {}).values(), *(own.image for own in (site.software or {}).values() if own.image)]
        for name in (name for name in named if "://" in name or runtime in ("Docker", "Sarus", "Shifter")):
            # Without it the job that is to pull it fails.
            assert re.search("@sha256:[0-9a-f]{64}$", name), name
