"""The line on a slow container's extra time: stages of a run, processor time, and counters of the processor."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from containercheck.job import counters
from containercheck.job.explain import time_spent
from containercheck.job.explain.observations import Use
from containercheck.job.explain.time_spent import Stages

#: Stages of a run of bare, and of containers that are slow for one reason each.
HOST = Stages(0.05, 0.0, 0.01, 0.0, 0.2, 0.01)
SCRIPTS, END = HOST._replace(scripts=1.1), HOST._replace(end=1.1)
#: Counters of a run of 10 s at 3 GHz, one instruction in each cycle.
COUNTED = Use(10.0, 10.0, instructions=30e9, cycles=30e9)
COMPUTING = "of 10 s more, 5 waiting, 5 computing; "


#: A run of 20 s, half of it computing, that counted this.
TWICE = Use(20.0, 20.0)
#: Of bare, a container and their stages, the line after the seconds of a run; None for no line.
SPENT = [
    (Use(10.0, 19.0, 1.0), Use(13.4, 19.2, 1.4), (), "of 3.4 s more, 3.1 waiting, 0.2 in the kernel"),
    (Use(0.3), Use(1.4), (HOST, SCRIPTS), "scripts of the image's environment take 1.1 s, 0 s on the host"),
    (Use(0.3), Use(1.4), (HOST, END), "the container's end takes 1.1 s, 0.01 s on the host"),
    # Only one side ran with its stages.
    (Use(0.3), Use(1.4), (Stages(), SCRIPTS), ""),
    (Use(10.0, 1.0), Use(14.0, 1.0, disk=6.0), (), "of 4 s more, 3 waiting for disks, 1 waiting"),
    (Use(10.0, disk=0.1, read=1 << 20), Use(14.0, 1.0, disk=6.1, read=97 << 20), (), "96 MiB more read from disks"),
    (Use(10.0), Use(14.0, 1.0, faults=1e6), (), "1000000 more page faults"),
    (Use(10.0), Use(14.0, 1.0, major_faults=900.0), (), "900 more page faults that read a file"),
    (COUNTED, TWICE._replace(instructions=60e9, cycles=60e9), (), f"{COMPUTING}2 times the instructions: other code"),
    (COUNTED, TWICE._replace(instructions=30e9, cycles=60e9), (), f"{COMPUTING}0.5 times the instructions per cycle: "),
    (COUNTED, TWICE._replace(instructions=30e9, cycles=30e9), (), f"{COMPUTING}the processors run at 1.5 GHz, 3 GHz"),
    # The run takes as long, or is not known.
    (Use(10.0, 19.0, 1.0), Use(10.5, 19.0, 1.0), (HOST, SCRIPTS), None),
    (Use(), Use(), (), None),
]


@pytest.mark.parametrize(("bare", "container", "stages", "line"), SPENT)
def test_where_the_time_went(bare, container, stages, line):
    found = time_spent.time_line(bare, container, 2, *([stages] if stages else []))
    takes = f"where the time went: a run takes {container.seconds:g} s, {bare.seconds:g} s on the host"
    assert found.startswith(takes + (f"; {line}" if line else "")) if line is not None else not found
    assert line != "" or found == takes


def staged(*words, **variables):
    """Run a program after the words that print its stages; return these, with its output and status."""
    began, environment = time.monotonic(), {**os.environ, **variables}
    words = [*shlex.split(time_spent.STAGES), *words]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    return Stages.read(done.stderr, began, time.monotonic()), done.stdout, done.returncode


def test_a_program_runs_once_with_its_arguments_and_status_and_its_stages_are_printed(tmp_path, monkeypatch):
    program = ["env", "A=1", "sh", "-c", 'echo "$A $1" >>ran; cat ran; exit 3', "sh", "two words"]
    monkeypatch.chdir(tmp_path)
    stages, printed, status = staged(*program)
    assert (printed, status) == ("1 two words\n", 3) and any(stages)


@pytest.mark.parametrize("start", ["python3", "script"])
def test_the_start_of_the_interpreter_is_a_stage_of_its_own(tmp_path, start):
    """By a module that each Python loads at its start."""
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python3\nprint('ran')\n")
    script.chmod(0o755)
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(0.3)\n")
    words = [str(script)] if start == "script" else ["python3", str(script)]
    stages, printed, _ = staged(*words, PYTHONPATH=str(tmp_path))
    assert printed == "ran\n" and stages.interpreter > 0.25 > stages.loader


def test_the_stages_of_all_steps_are_added_each_by_its_last_rank():
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    rows = ["12.0 13.0 13.0 13.0 14.0", "8.3 8.5 8.6 8.6 9.1", "8.1 8.1 8.2 8.2 9.0"]
    printed = "".join(f"x\ncontainercheck: stages {boot} {row}\n" for row in rows)
    printed += "\ncontainercheck: stages another-node 1.0 1.0 1.0 1.0 1.0\n"
    found = Stages.read(printed, 8.0, 14.5)
    assert [round(seconds, 2) for seconds in found] == [2.0, 1.2, 0.1, 0.0, 1.4, 0.5]
    assert Stages.read("", 10.0, 14.5) == Stages()


def test_counters_count_the_processes_that_are_started_after_them():
    """With events of the kernel, as some machines have no counters of the processor."""
    try:
        spent, faults = counters.Counter(counters.TASK_TIME), counters.Counter(counters.PAGE_FAULTS)
    except OSError as error:
        pytest.skip(f"the kernel refuses to count: {error}")
    before = os.times()
    subprocess.run(["sh", "-c", "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done'; true"], check=True)
    after = os.times()
    children = sum(getattr(after, name) - getattr(before, name) for name in ("children_user", "children_system"))
    # The clock of processes has ticks of 10 ms.
    assert spent.value() / 1e9 > 0.8 * children - 0.02 and faults.value() > 50
    spent.close()
    faults.close()


class Played:
    """Stands for the counter of an event."""

    def __init__(self, event):
        self._value = {counters.TASK_TIME: 9.5e9, counters.CYCLES: 2e10, counters.INSTRUCTIONS: 3e10}[event]

    def value(self):
        return self._value

    def close(self):
        pass


def test_counts_are_known_only_if_nearly_all_processes_were_counted(monkeypatch):
    """Those of a daemon are not, and those of a starter with set-user-ID."""
    monkeypatch.setattr(counters, "Counter", Played)
    counted = counters.Counters()
    counted.start()
    counted.finish()
    assert counted.result(10.0) == {"instructions": 3e10, "cycles": 2e10}
    assert counted.result(20.0) == {"instructions": 0.0, "cycles": 0.0}


def test_without_counters_nothing_is_counted_and_nothing_fails(monkeypatch):
    def refused(event):
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(counters, "Counter", refused)
    counted = counters.Counters()
    counted.start()
    counted.finish()
    assert counted.result(0.0) == {"instructions": 0.0, "cycles": 0.0}
