"""Caches, directories and archives on file systems and nodes that have less than ours, or that others share."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from types import SimpleNamespace

import pytest
from conftest import entry_command, write_program
from containercheck.check import build
from containercheck.job import contract
from containercheck.job.build import image_conversion, image_files
from containercheck.job.build.cache import CacheError
from containercheck.job.container_runtimes import by_name
from containercheck.sides import commands
from containercheck.sides.sides import Container, Launcher, Needs, Program, Side
from containercheck.site import jobs
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from reframe.core.exceptions import ReframeError

PIN = "0123456789abcdef" * 4
NAME = f"docker://host.example/ours/hpcc@sha256:{PIN}"


def pull(directory, runtime, **parts):
    """Pull an image in a directory, in which programs take the place of the machine's."""
    known = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
    command = entry_command("pull", runtime=runtime, directory="cache", link="image.sif", **parts)
    return subprocess.run(command, cwd=directory, env=known, capture_output=True, text=True)


@pytest.mark.parametrize("content", ["null", "{}", '{"bytes": null, "reference": [], "id": {}}'])
def test_a_record_of_another_shape_counts_as_none(tmp_path, content):
    write_program(tmp_path / "docker", "[ $1 = pull ] || echo sha256:feed")
    reference = NAME.partition("://")[2]
    assert pull(tmp_path, "docker", reference=reference).returncode == 0
    (record,) = (tmp_path / "cache").glob("*.json")
    whole = json.loads(record.read_text())
    record.write_text(content)
    done = pull(tmp_path, "docker", reference=reference)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(record.read_text()) == whole


def unpacking(directory):
    """Return the script that unpacks an image in its container, as the job's script has it."""
    image = Container(by_name("Apptainer"), "image.sif")
    bare = Side("baseline", "bare", Program("app"))
    side = Side("subject", "generic", Program("app"), Launcher(), image, compared_with="baseline")
    site = Site("cluster:compute", is_here=True, architecture="x86_64", cores=4, gpus=0)
    job = commands.job_commands([bare, side], Needs(), [], site, Layout(1, 1, 1), "/stage")
    line = json.loads(job.files["commands.json"])["subject"]["commands"]["unpack"].replace("{{tree}}", "image.unpacked")
    words = shlex.split(line)[-1]
    return words.replace(contract.WORKDIR, str(directory))


@pytest.mark.parametrize(("status", "good"), [(0, True), (1, True), (2, False), (137, False)])
def test_an_image_that_was_read_in_part_is_not_unpacked(tmp_path, status, good):
    (tmp_path / "image.unpacked").mkdir()
    write_program(
        tmp_path / "tar", f'case "$*" in *-cf*) echo part; exit {status} ;; -C*) head -c 1 >/dev/null ;; esac'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", unpacking(tmp_path)], env=environment)
    assert (done.returncode == 0) == good


def test_a_digest_of_two_architectures_is_an_image_for_each_and_another_ones_is_refused(tmp_path):
    paths = []
    for wanted, given in (("x86_64", "x86_64"), ("aarch64", "aarch64"), ("x86_64", "x86_64"), ("ppc64le", "aarch64")):
        header = f"{'':32}SIF_MAGIC\\00001\\000{ {'x86_64': '02', 'aarch64': '04'}[given] }\\000"
        write_program(tmp_path / "apptainer", f'[ "$1" = pull ] && printf \'{header}\' >"$2"')
        done = pull(tmp_path, "apptainer", reference=NAME, architecture=wanted)
        paths.append((tmp_path / "image.sif").resolve())
    assert paths[0] == paths[2] != paths[1]
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: the image {NAME} is for aarch64, and the partition's nodes are ppc64le")
    assert len([*(tmp_path / "cache").glob("*.sif")]) == 2


class BuildOfPbs(SimpleNamespace):
    """What a check knows when its build job has ended, under a scheduler that is asked nothing more."""

    def __init__(self, stagedir):
        super().__init__(
            stagedir=str(stagedir),
            build_locally=False,
            build_stderr=SimpleNamespace(evaluate=lambda: "rfm_build.err"),
            build_job=SimpleNamespace(
                scheduler=SimpleNamespace(registered_name="pbs"), exception=None, exitcode=None, state="F"
            ),
            max_pending_time=None,
            images_only="",
            is_dry_run=lambda: False,
        )


def test_the_status_of_a_build_is_waited_for_and_not_for_ever(tmp_path, monkeypatch):
    (tmp_path / "rfm_build.err").write_text("")
    sleep = time.sleep
    monkeypatch.setattr(jobs.time, "sleep", lambda _: (tmp_path / contract.BUILD_STATUS).write_text("0\n"))
    build.BuiltCheck.check_build(BuildOfPbs(tmp_path))
    (tmp_path / contract.BUILD_STATUS).unlink()
    monkeypatch.setattr(jobs.time, "sleep", sleep)
    monkeypatch.setattr(jobs, "LATE", 0.0)
    with pytest.raises(ReframeError, match="the build was ended before it was done"):
        build.BuiltCheck.check_build(BuildOfPbs(tmp_path))


def test_a_conversion_that_hangs_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "LIMIT", 0.2)
    monkeypatch.setattr(image_files, "ANSWER_LIMIT", 0.2)
    write_program(tmp_path / "docker", "exec sleep 600")
    facts = {"path": "localhost/containercheck/hpcc:1", "archive": "image.oci", "id": "feed", "sha256": PIN}
    with pytest.raises(CacheError, match="docker does not load localhost/containercheck/hpcc:1 on "):
        image_conversion.load(by_name("Docker"), facts, str(tmp_path / "docker"))
    write_program(tmp_path / "apptainer", "[ $1 = exec ] || exit 0; exec sleep 600")
    (tmp_path / "hpcc.json").write_text(json.dumps(facts))
    runtime, builder = by_name("Charliecloud"), str(tmp_path / "apptainer")
    entry = image_conversion.Tree(tmp_path / "hpcc.sif", runtime, tmp_path / "cache", builder)
    with pytest.raises(CacheError, match=r"hpcc failed: sh was not done after 0\.2 s"):
        entry.ensure()
    with pytest.raises(CacheError, match="cannot be converted: `env` does not run in it"):
        entry.variables()
