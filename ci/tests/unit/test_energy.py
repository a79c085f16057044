"""The energy of a run, from trees of counters as nodes have them."""

from __future__ import annotations

import pytest
from containercheck.application.declare import ENERGY
from containercheck.job import contract, energy, single_run
from containercheck.job.outputs.reading import read_metric

#: Zones of an AMD EPYC with two sockets, and of an Intel Xeon with memory and a sum of all.
EPYC = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:1": "package-1"}
XEON = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram", "intel-rapl:1": "psys"}
LARGEST = 262143328850


def powercap(root, zones, microjoules):
    for (zone, name), value in zip(zones.items(), microjoules):
        place = root / energy.POWERCAP / zone
        place.mkdir(parents=True, exist_ok=True)
        for file, text in (("name", name), ("energy_uj", value), ("max_energy_range_uj", LARGEST)):
            (place / file).write_text(f"{text}\n")


def cray(root, joules):
    (root / energy.CRAY).parent.mkdir(parents=True, exist_ok=True)
    (root / energy.CRAY).write_text(f"{joules} J 1700000000 us\n")


@pytest.mark.parametrize(
    ("zones", "before", "after", "joules"),
    [
        (EPYC, (0, 0, 0), (5_000_000, 4_000_000, 7_000_000), "12.000"),
        (XEON, (0, 0, 0), (5_000_000, 1_000_000, 9_000_000), "6.000"),
        # The counter began again at zero.
        (EPYC, (LARGEST - 1_000_000, 0, 0), (2_000_000, 0, 0), "3.000"),
    ],
)
def test_the_energy_of_processors_and_memory_is_added(tmp_path, zones, before, after, joules):
    powercap(tmp_path, zones, before)
    meter = energy.Meter(tmp_path)
    powercap(tmp_path, zones, after)
    meter.look()
    assert str(meter) == f"energy {joules} J"


def test_a_cray_counts_the_whole_node(tmp_path):
    powercap(tmp_path, EPYC, (0, 0, 0))
    cray(tmp_path, 1000)
    meter = energy.Meter(tmp_path)
    cray(tmp_path, 1250)
    meter.look()
    assert str(meter) == "energy 250.000 J"


def test_without_a_counter_that_may_be_read_the_metric_does_not_apply_and_the_reason_is_said(tmp_path, monkeypatch):
    assert str(energy.Meter(tmp_path)) == "no energy: this node has no counter of energy"

    def refused(root):
        raise PermissionError(13, "Permission denied", "/sys/class/powercap/intel-rapl:0/energy_uj")

    monkeypatch.setattr(energy, "readings", refused)
    meter = energy.Meter(tmp_path)
    assert str(meter) == "no energy: /sys/class/powercap/intel-rapl:0/energy_uj: Permission denied"
    (tmp_path / contract.ENERGY).write_text(f"{meter}\n")
    assert read_metric(ENERGY, tmp_path) is None


def test_a_run_has_the_energy_from_its_start_to_its_end(tmp_path, monkeypatch):
    root = tmp_path / "node"
    cray(root, 10)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(energy.Meter.__init__, "__defaults__", (root,))
    script = f"echo 35 J >{root / energy.CRAY}"
    single_run.run_once(script, tmp_path / "run", 10.0, [contract.ENERGY], 0)
    assert read_metric(ENERGY, tmp_path / "run") == 25.0
    # It is measured only where it is asked for.
    single_run.run_once(script, tmp_path / "other", 10.0, [], 0)
    assert not (tmp_path / "other" / contract.ENERGY).exists()
