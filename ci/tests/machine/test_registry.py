"""Images in a registry: a real one, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
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
storage: {{filesystem: {{rootdirectory: {directory}}}, maintenance: {{readonly: {{enabled: {is_read_only}}}}}}}
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


@contextlib.contextmanager
def serving(program, directory, is_read_only=False):
    """Serve a registry on this machine, which may refuse uploads; give its process and its host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    file = directory / "registry.yml"
    facts = {"port": host.partition(":")[2], "is_read_only": str(is_read_only).lower()}
    file.write_text(CONFIGURATION.format(directory=directory / "registry", **facts))
    process = subprocess.Popen([program, "serve", file])
    try:
        assert eventually(lambda: can_be_reached(f"http://{host}/v2/"))
        yield process, host
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def no_proxy(monkeypatch):
    """Let no proxy lead to this machine."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def registry(tmp_path, session, program, no_proxy):
    """Start a registry, put an image into it; yield the registry's process, and host and digest of the image."""
    with serving(program, tmp_path) as (process, host):
        built = session("-n", "Planted%variant=generic", "-S", "rounds=1").case("generic")["provenance"]["image"]
        subprocess.run(["apptainer", "push", "--no-https", built, f"oras://{host}/planted:1"], check=True)
        manifest = urllib.request.Request(f"http://{host}/v2/planted/manifests/1")
        manifest.add_header("Accept", "application/vnd.oci.image.manifest.v1+json")
        with urllib.request.urlopen(manifest) as answer:
            yield process, host, answer.headers["Docker-Content-Digest"].partition(":")[2]


def test_an_image_is_pulled_once_by_its_digest(registry, session, site, tmp_path):
    process, host, digest = registry
    reference = f"oras://{host}/planted@sha256:{digest}"
    extras = {"images": {"mpi": reference}, "caches": str(tmp_path / "cache")}
    settings = site(extras=extras)
    arguments = ("-C", settings, "-n", "Planted%variant=generic", "-S", "rounds=2")
    result = session(*arguments, APPTAINER_NOHTTPS="true")
    known = result.case("generic")["provenance"]
    name = f"planted-{platform.machine()}-{digest[:12]}.sif"
    assert known["image"] == str(tmp_path / "cache" / "images" / name), result.output
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


#: A check whose image takes seconds to build on its base.
PING_PONG = "^PingPong%.*variant=generic%.*num_nodes=1($|%)"


@pytest.fixture
def command(tmp_path, site, no_proxy):
    """Run containercheck images for one check, with extras of the site; give the exit status and the printed lines."""

    def run(action, **extras):
        words = ["-m", "containercheck", "images", action, "--nocolor", "-C", site(extras=extras), "-n", PING_PONG]
        own = {"RFM_PREFIX": str(tmp_path), "RFM_REPORT_FILE": str(tmp_path / "report.json")}
        keys = {"APPTAINER_KEYSDIR": str(tmp_path / "keys"), "APPTAINER_NOHTTPS": "true"}
        done = subprocess.run(
            [sys.executable, *words], cwd=REPOSITORY, env={**os.environ, **own, **keys}, capture_output=True, text=True
        )
        assert not done.stderr
        return done.returncode, done.stdout.splitlines()

    return run


def make_key(directory):
    """Make a key in a keyring, and return its fingerprint."""
    directory.mkdir(mode=0o700, exist_ok=True)
    env = {**os.environ, "APPTAINER_KEYSDIR": str(directory)}
    words = ["--name=ours", "--email=ours@example.org", "--comment=", "--password=", "--push=false"]
    subprocess.run(["apptainer", "key", "newpair", *words], env=env, check=True, capture_output=True)
    listed = subprocess.run(
        ["apptainer", "key", "list", "--secret"], env=env, check=True, capture_output=True, text=True
    )
    return re.findall(r"Fingerprint:\s+(\w+)", listed.stdout)[-1]


def test_images_are_built_and_pushed_once_and_then_pulled_with_their_signature(program, command, tmp_path):
    key, other = make_key(tmp_path / "keys"), make_key(tmp_path / "others")
    with serving(program, tmp_path) as (process, host):
        named = {"image_registry": f"oras://{host}/checks", "image_key": key}
        status, lines = command("push", **named)
        assert status == 0, lines
        assert re.fullmatch(rf"images: pingpong \S+ is in the registry, signed by {key}", lines[0]), lines
        piece = json.loads("".join(lines[3:]))
        assert re.fullmatch(rf"oras://{host}/checks/pingpong@sha256:[0-9a-f]{{64}}", piece["images"]["pingpong"])
        status, again = command("push", **named)
        # The digest of a second signature would be another one.
        assert (status, again) == (0, lines)
        # Another account, with the piece in its site file: it pulls, and builds nothing.
        pulling = {**piece, "caches": str(tmp_path / "cache")}
        status, lines = command("list", **pulling)
        assert (status, lines[1].split()[-2]) == (0, "no"), lines
        status, lines = command("build", image_key=key, **pulling)
        assert (status, lines[1].split()[-2]) == (0, "yes"), lines
        assert lines[1].split()[-1] == piece["images"]["pingpong"].partition("@sha256:")[2][:12]
        (pulled,) = (tmp_path / "cache" / "images").glob("*.sif")
        dumped = subprocess.run(["apptainer", "sif", "dump", "4", pulled], check=True, capture_output=True)
        assert "libc6" in [each["name"] for each in json.loads(dumped.stdout)["components"]]
        # An image that another key signed is refused.
        status, lines = command("build", image_key=other, **pulling)
        said = r"images: error: PingPong: the image \S+ cannot be pulled: it has no valid signature of the k"
        assert status == 1 and re.match(said, lines[0]), lines
        process.kill()
        process.wait()
        status, lines = command("list", **named)
        assert (status, lines[1].split()[-2:]) == (2, ["yes", "?"]), lines
        assert re.match(f"images: error: the registry {host} does not answer: ", lines[2]) and len(lines) == 3


def test_a_registry_that_refuses_and_a_key_that_is_not_there_are_one_line_each(program, command, tmp_path):
    with serving(program, tmp_path, is_read_only=True) as (_, host):
        named = {"image_registry": f"oras://{host}/checks"}
        status, lines = command("push", **named)
        assert status == 1 and len(lines) == 1, lines
        assert lines[0].startswith("images: error: pingpong: apptainer push: Unable to push image to oci registry: ")
        status, lines = command("push", image_key="0" * 40, **named)
        said = f"images: error: pingpong: no key: apptainer has no secret key {'0' * 40}: apptainer key import FILE"
        assert (status, lines) == (1, [said])


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
