"""Ping Pong started for real: how many pairs of each class take part."""

import re
import subprocess

import pytest
from pingpong_program import MPIRUN, program  # noqa: F401


@pytest.mark.parametrize(
    ("options", "measured"),
    [
        ((), 10),
        (("4",), 4),
        *(
            pytest.param((pairs,), measured, marks=pytest.mark.long)
            for pairs, measured in (("0", 10), ("9", 9), ("10", 10))
        ),
    ],
)
def test_of_each_class_so_many_pairs_take_part(program, options, measured, tmp_path):
    command = [*MPIRUN, "-np", "5", program, "0.001", *options]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    pairs = {name: re.findall(rf"^{name} (\w+) (\d+)$", said, re.MULTILINE) for name in ("pairs", "measured")}
    assert sum(int(count) for _, count in pairs["pairs"]) == 10
    assert max(int(count) for _, count in pairs["measured"]) == measured
    assert "wrong bytes 0" in said
