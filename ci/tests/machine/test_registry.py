"""Images in a registry: a real one, on this machine."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import REPOSITORY, alive, eventually
from containercheck.job import contract
from imagetransfer import SIZES, STEPS

CONFIGURATION = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {directory}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Get Debian's registry without installing it: that would start it for the whole machine."""
    if not shutil.which("apt-get"):
        pytest.skip("no apt-get, which fetches the package docker-registry")
    directory = tmp_path_factory.mktemp("package")
    command = ["apt-get", "-q", "download", "docker-registry"]
    fetched = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"the package docker-registry cannot be had: {fetched.stderr.strip()}")
    (package,) = directory.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
    return directory / "usr" / "bin" / "docker-registry"


def can_be_reached(address):
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except urllib.error.URLError:
        return False


@pytest.fixture
def registry(tmp_path, session, program, monkeypatch):
    """Start a registry, put an image into it; yield the registry's process, and host and digest of the image."""
    # No proxy leads to this machine.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    settings = tmp_path / "registry.yml"
    settings.write_text(CONFIGURATION.format(directory=tmp_path / "registry", port=host.partition(":")[2]))
    process = subprocess.Popen([program, "serve", settings])
    try:
        assert eventually(lambda: can_be_reached(f"http://{host}/v2/"))
        built = session("-n", "Planted%variant=generic", "-S", "rounds=1").case("generic")["provenance"]["image"]
        subprocess.run(["apptainer", "push", "--no-https", built, f"oras://{host}/planted:1"], check=True)
        manifest = urllib.request.Request(f"http://{host}/v2/planted/manifests/1")
        manifest.add_header("Accept", "application/vnd.oci.image.manifest.v1+json")
        with urllib.request.urlopen(manifest) as answer:
            yield process, host, answer.headers["Docker-Content-Digest"].partition(":")[2]
    finally:
        process.kill()
        process.wait()


def test_an_image_is_pulled_once_by_its_digest(registry, session, site, tmp_path):
    process, host, digest = registry
    reference = f"oras://{host}/planted@sha256:{digest}"
    extras = {"images": {"mpi": reference}, "caches": str(tmp_path / "cache")}
    settings = site(extras=extras)
    arguments = ("-C", settings, "-n", "Planted%variant=generic", "-S", "rounds=2")
    result = session(*arguments, APPTAINER_NOHTTPS="true")
    known = result.case("generic")["provenance"]
    name = f"planted-{platform.machine()}-{digest[:12]}.sif"
    assert known["image"] == str(tmp_path / "cache" / name), result.output
    # Not any under the stage: there is that of the session which built the image, too.
    stage = Path(result.case("generic")["stagedir"])
    script = (stage / "rounds" / "01-subject" / "run.sh").read_text()
    assert re.search(r"^(env .*)?apptainer exec .* image.sif sh work.sh none$", script, re.MULTILINE)
    assert "oras://" not in (stage / "rfm_job.sh").read_text()
    # What is there needs no registry.
    process.kill()
    process.wait()
    again = session(*arguments).case("generic")["provenance"]
    assert (again["image"], again["image_sha256"]) == (known["image"], known["image_sha256"])
    record = json.loads((stage / contract.IMAGE_RECORD).read_text())
    assert record["reference"] == reference


@pytest.mark.skipif(not all(map(shutil.which, ("skopeo", "umoci"))), reason="no skopeo or umoci, of Debian")
def test_an_image_goes_all_the_way_through_a_registry(session, program):
    """Built, pushed, pulled by its digest, converted and started, by the tools themselves."""
    size = ["-S", "ImageTransfer.megabytes=5", "-S", "strict_check=no"]
    path = f"{program.parent}:{os.environ['PATH']}"
    result = session("-n", "ImageTransfer", *size, checks=REPOSITORY / "checks" / "imagetransfer.py", PATH=path)
    case = result.case("bare")
    assert case["result"] == "pass", case["fail_reason"] or case["skip_reason"] or result.output
    values = {row["metric"]: row["baseline"] for row in case["results"]}
    assert {f"seconds_{step}" for step in STEPS} | {f"bytes_{name}" for name in SIZES} == set(values)
    assert all(value > 0 for value in values.values())
    # Half of the tree is zeros, which the registry never sees, and what comes back is what was pushed.
    assert values["bytes_tree"] > 5 << 20 and values["bytes_pulled"] < 0.8 * values["bytes_tree"]
    assert values["bytes_pulled"] == pytest.approx(values["bytes_built"], rel=0.05)
    # Its registry ended with it.
    assert eventually(lambda: not alive(str(program)))
