"""Images in a registry, for each runtime in its way: with commands that do as the real ones would, and keep a list."""

from __future__ import annotations

import doctest
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import REPOSITORY, entry_command, entry_of, findings_of, log_of, record_of, write_program
from containercheck.job import contract, launch, locks
from containercheck.job.build import image_conversion, image_files
from containercheck.job.build.cache import CacheError
from containercheck.job.container_runtimes import by_name
from containercheck.job.verdict.builds import provenance
from containercheck.sides import commands
from containercheck.sides.sides import Container, Launcher, Program, Side
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from containercheck.software import images
from containercheck.software.provision import Wanted

PIN = "0123456789abcdef" * 4
NAME = f"host.example:5000/ours/hpcc@sha256:{PIN}"
AWAY = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
HERE = replace(AWAY, is_here=True)
#: They print and end as docker, sarus 1.6 and shifterimg 22.02 do by their sources. ``have`` lists the pulled images.
RUNTIMES = ("docker", "sarus", "shifterimg")
IDENTIFIERS = {"docker": "sha256:feed", "sarus": f"sha256:{PIN}", "shifter": "feed"}


def pull(directory, runtime, name=NAME, cached_only=False, **environment):
    """Pull with runtimes that do as the real ones would; ``DOWN`` for a registry that does not answer."""
    place = directory / "bin"
    place.mkdir(exist_ok=True)
    for called in RUNTIMES:
        shutil.copy(REPOSITORY / "ci/tests/programs" / called, place)
    only = {contract.CACHED_ONLY: "1"} if cached_only else {}
    known = {"PATH": f"{place}:{os.environ['PATH']}", "NAME": name, "DOWN": "", **only, **environment}
    parts = {"runtime": runtime, "directory": directory / "cache", "link": "image.sif"}
    command = entry_command("pull", reference=name, **parts)
    return subprocess.run(command, cwd=directory, env={**os.environ, **known}, capture_output=True, text=True)


def test_the_host_of_a_name_and_the_variables_of_an_image():
    assert [doctest.testmod(module).failed for module in (image_files, image_conversion)] == [0, 0]


@pytest.mark.parametrize("runtime", ["docker", "sarus", "shifter"])
def test_a_runtime_that_keeps_its_images_pulls_once_by_digest(tmp_path, runtime):
    assert pull(tmp_path, runtime, cached_only=True).returncode == 1
    for _ in range(2):
        result = pull(tmp_path, runtime)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "have").read_text() == f"{NAME}\n"
    name, known = f"docker:{NAME}" if runtime == "shifter" else NAME, IDENTIFIERS[runtime]
    record = json.loads((tmp_path / contract.IMAGE_RECORD).read_text())
    assert record == {"path": name, "sha256": PIN, "bytes": None, "reference": NAME, "id": known}
    assert (tmp_path / contract.IMAGE_ID).read_text() == f"{known}\n"
    assert pull(tmp_path, runtime, DOWN="1", cached_only=True).returncode == 0
    # Who removed it from the runtime gets it again.
    (tmp_path / "have").unlink()
    assert pull(tmp_path, runtime).returncode == 0
    assert (tmp_path / "have").exists()
    found = provenance(record_of(), {}, tmp_path)
    assert (found["image"], found["image_sha256"], found["image_id"]) == (name, PIN, known)
    assert findings_of(record_of(), [], tmp_path).remarks() == []


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        ("docker", "Error response from daemon: dial tcp: connection refused"),
        ("sarus", f"Failed to pull image '{NAME}'"),
        ("shifter", f"2026-01-01T00:00:01 Pulling Image: docker:{NAME}, status: FAILURE"),
    ],
)
def test_a_registry_that_does_not_answer_is_one_line(tmp_path, runtime, why):
    result = pull(tmp_path, runtime, DOWN="1")
    assert result.returncode == 1
    log = log_of(tmp_path / "cache", "host.example_5000_ours_hpcc")
    assert result.stderr == f"error: the image {NAME} cannot be pulled: {why} (log: {log})\n"
    assert not (tmp_path / contract.IMAGE_RECORD).exists()


@pytest.mark.parametrize("name", ["ours/hpcc:1.5", "ours/hpcc@sha256:abc", "/shared/hpcc.sif", f"a; b@sha256:{PIN}"])
def test_a_name_that_is_not_pinned_is_an_error(tmp_path, name):
    result = pull(tmp_path, "docker", name)
    assert result.returncode == 1
    assert result.stderr == f"error: the image {name} is not pinned: end its name with @sha256:<64 digits>\n"
    assert not (tmp_path / "have").exists()


def test_a_runtime_that_is_not_there_is_a_reason_for_a_skip(tmp_path):
    result = pull(tmp_path, "sarus", PATH="/nowhere")
    assert result.returncode == contract.UNSUPPORTED
    assert " would be pulled here, and there is no sarus" in result.stderr


def as_file(directory, reference, content="an image"):
    """Pull an image that is a file, with a runtime that writes this one."""
    program = directory / "apptainer"
    program.write_text(f'#!/bin/sh\n[ "$1" = pull ] || exit 1\necho "$3" >asked\nprintf "{content}" >"$2"\n')
    program.chmod(0o755)
    image = image_files.Pulled(reference, directory / "cache", str(program))
    image.ensure()
    return image


def test_of_an_image_from_a_web_server_the_whole_digest_is_compared(tmp_path, monkeypatch):
    """The runtime does not: whatever lay there counted as pinned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "lock")
    digest = hashlib.sha256(b"an image").hexdigest()
    image = as_file(tmp_path, f"https://host/hpcc.sif@sha256:{digest}")
    assert image.facts()["sha256"] == digest
    assert (tmp_path / "asked").read_text() == "https://host/hpcc.sif\n"
    with pytest.raises(CacheError, match=f"it is not the pinned one, its SHA-256 is {digest}"):
        as_file(tmp_path, f"https://host/hpcc.sif@sha256:{PIN}")
    # A pin that begins like that of an image in the cache is another one's.
    for number, pin in enumerate((PIN, PIN[:12] + PIN[12:][::-1])):
        as_file(tmp_path, f"oras://host/other@sha256:{pin}", str(number))
        assert next((tmp_path / "cache").glob("other-*.sif")).read_text() == str(number)
    # A registry that is silent is given up.
    monkeypatch.setattr(image_files, "LIMIT", 0.5)
    write_program(tmp_path / "apptainer", "echo INFO: waiting; exec sleep 1000")
    with pytest.raises(CacheError, match="silent@.* cannot be pulled: .*apptainer was not done after 0.5 s"):
        image_files.Pulled(
            f"oras://host:1/silent@sha256:{PIN}", tmp_path / "cache", str(tmp_path / "apptainer")
        ).ensure()


@pytest.mark.parametrize(
    ("verified", "is_accepted"),
    [
        ('{"SignerKeys": [{"Signer": {"Fingerprint": "ab12"}}]}', True),
        ('{"SignerKeys": [{"Signer": {"Fingerprint": "cd34"}}]}', False),
        ('{"SignerKeys": null}', False),
        ("exit 255", False),
    ],
)
def test_an_image_without_the_signature_of_the_sites_key_is_refused(tmp_path, monkeypatch, verified, is_accepted):
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "lock")
    answer = verified if verified.startswith("exit") else f"echo '{verified}'"
    write_program(tmp_path / "apptainer", f'case $1 in pull) echo image >"$2" ;; verify) {answer} ;; *) exit 1 ;; esac')
    parts = (f"oras://host/hpcc@sha256:{PIN}", tmp_path / "cache", str(tmp_path / "apptainer"), None)
    # Without a key anything is taken, and once there is one, nothing that was pulled before.
    image_files.Pulled(*parts).ensure()
    image = image_files.Pulled(*parts, "AB12")
    if is_accepted:
        assert image.ensure().exists() and image.is_intact()
    else:
        with pytest.raises(CacheError, match="hpcc@.* it has no valid signature of the key AB12, the site's image_key"):
            image.ensure()


def test_a_runtime_without_apptainers_keys_pulls_nothing_that_must_be_signed(tmp_path):
    with pytest.raises(CacheError, match="is not verified: docker knows no such keys: leave out image_key"):
        image_files.image_of_registry(NAME, tmp_path, "docker", key="AB12")


@pytest.mark.parametrize("scheme", ["library", "docker-archive", "file"])
def test_an_image_whose_digest_nobody_compares_is_an_error(tmp_path, scheme):
    reference = f"{scheme}://host/hpcc@sha256:{PIN}"
    with pytest.raises(CacheError, match="cannot be checked for its digest|is not pinned"):
        image_files.Pulled(reference, tmp_path, "apptainer")


@pytest.mark.parametrize(
    ("runtime", "words"),
    [("Docker", f" {NAME} hpcc -v"), ("Shifter", " --image=id:feed --volume=/stage:/rfm_workdir ")],
)
@pytest.mark.parametrize("name", [NAME, f"docker://{NAME}"])
def test_what_runs_is_the_image_that_was_pulled(runtime, words, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image.id").write_text("feed\n")
    site = replace(HERE, images={"hpcc": name})
    found = images.provide_image(Wanted("HPCC", "hpcc", recipe="hpcc", runtime=by_name(runtime)), site)
    entry = entry_of(found.build[0])
    assert (entry["kind"], entry["runtime"], entry["reference"]) == ("pull", runtime.lower(), NAME)
    container, program = Container(by_name(runtime), found.image), Program("hpcc", ("-v",))
    side = Side("subject", "generic", program, Launcher("srun"), container, compared_with="bare")
    stored = commands.side_commands(side, AWAY, Layout(1, 4, 1), "/stage").stored
    (tmp_path / "commands.json").write_text(json.dumps({"subject": stored}))
    assert words in launch.Launch("subject").run

    # An image of an archive is in no registry.
