"""The way of an image: the metrics of its steps, and what is missing; the way itself is a session's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from containercheck.job.outputs.reading import read_metric
from imagetransfer import SIZES, STEPS, ImageTransfer

PATH = REPOSITORY / "checks" / "src" / "imagetransfer" / "imagetransfer.py"
SPEC = importlib.util.spec_from_file_location("transfer_program", PATH)
program = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(program)


def test_without_the_tools_the_check_is_skipped_with_the_reason(tmp_path):
    look = [sys.executable, PATH, "--look"]
    done = subprocess.run(look, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == program.UNSUPPORTED
    assert done.stderr.startswith("error: no software: no docker-registry on the PATH of ")


def test_a_step_that_fails_names_its_last_line():
    with pytest.raises(program.TransferError, match="sh ended with status 3: worse"):
        program.run("sh", "-c", "echo bad; echo worse; exit 3")


def test_the_tree_is_the_same_everywhere_and_half_of_it_compresses(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        program.make_tree(tmp_path / name, 1, "mark")
    files = [sorted((tmp_path / name / "data").iterdir()) for name in ("one", "two")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]
    assert program.size_of(tmp_path / "one" / "data") == 1 << 20
    block = files[0][0].read_bytes()
    assert block[program.FILE // 2 :] == bytes(program.FILE // 2) and len(set(block[: program.FILE // 2])) == 256


def test_a_registry_that_does_not_start_is_an_error(tmp_path):
    with pytest.raises(program.TransferError, match="does not answer"), program.registry("false", tmp_path):
        pass


def test_the_metrics_are_read_from_what_it_prints(tmp_path):
    lines = [f"seconds {step} 1.5" for step in STEPS] + [f"bytes {name} 12" for name in SIZES]
    (tmp_path / "out").write_text("\n".join(lines) + "\n")
    values = [read_metric(metric, tmp_path) for metric in ImageTransfer.metrics]
    assert values == [1.5] * len(STEPS) + [12.0] * len(SIZES)
