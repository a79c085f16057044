"""Measure the energy of a run by the counters of its node (Linux; standard library only, Python 3.6 or newer).

Nodes of HPE Cray count the joules of the whole node. Other x86 nodes count microjoules of processors and of memory
(RAPL, in Linux's powercap); there only root may read them since 2020 (CVE-2020-8694), unless the site allows others.
The counters include other jobs on the node, so a job needs its node to itself.
"""

from pathlib import Path
from typing import Dict, NamedTuple

from containercheck.job import run_observation

#: Counters of HPE Cray, and of powercap.
CRAY, POWERCAP = "sys/cray/pm_counters/energy", "sys/class/powercap"
#: Seconds between two looks. A package of 1000 W takes four minutes to the end of the usual counter.
INTERVAL = 30.0


class Reading(NamedTuple):
    """Hold a counter's value and its largest value, in J; 0 as the largest value if it never begins again."""

    joules: float
    largest: float


def readings(root: Path = Path("/")) -> Dict[str, Reading]:
    """Return the counters of this node by path.

    :raises OSError: a counter may not be read.
    """
    cray = root / CRAY
    if cray.exists():
        return {str(cray): Reading(float(cray.read_text().split()[0]), 0.0)}
    found = {}
    for zone in sorted(root.joinpath(POWERCAP).glob("*:*")):
        # The energy of cores belongs to their package, and "psys" includes all of these.
        if zone.joinpath("name").read_text().strip().startswith(("package-", "dram")):
            values = (int((zone / name).read_text()) / 1e6 for name in ("energy_uj", "max_energy_range_uj"))
            found[str(zone)] = Reading(*values)
    return found


class Meter(run_observation.Watch):
    """Measure the energy of this node from its start to :meth:`finish`.

    :param root: of the file system.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Prepare the thread, which :meth:`start` starts."""
        super().__init__()
        self._root = root
        self._last: Dict[str, Reading] = {}
        self._joules, self._why = 0.0, "this node has no counter of energy"
        self.look()

    def look(self) -> None:
        """Add the energy since the last look."""
        try:
            now = readings(self._root)
        except OSError as error:
            now, self._why = {}, f"{error.filename}: {error.strerror}"
        for path in now.keys() & self._last.keys():
            before, (joules, largest) = self._last[path].joules, now[path]
            self._joules += joules - before if joules >= before else joules + largest - before
        self._last = now

    def run(self) -> None:
        """Look now and then, as counters begin again at zero."""
        while not self.finished.wait(INTERVAL):
            self.look()

    def finish(self) -> None:
        """Look for the last time."""
        super().finish()
        self.look()

    def __str__(self) -> str:
        """Return the line that the metric is read from."""
        return f"energy {self._joules:.3f} J" if self._last else f"no energy: {self._why}"
