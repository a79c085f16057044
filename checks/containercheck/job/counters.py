"""Count the instructions and cycles of a run's processes, if processors and kernel allow it (perf_event_open(2)).

Linux, standard library only, Python 3.6 or newer. Processes inherit the counters of the thread that starts them.
Processes that a daemon starts do not, and an executable with set-user-ID loses them: both are not counted.
"""

import contextlib
import ctypes
import os
import struct
from typing import Any, Dict

from containercheck.job import architectures

#: Kind and number of an event: perf_event.h. The time of tasks is in ns.
INSTRUCTIONS, CYCLES, TASK_TIME, PAGE_FAULTS = (0, 1), (0, 0), (1, 1), (1, 2)
#: Inherited by children; without the kernel and the hypervisor, as unprivileged users may count.
_FLAGS = 1 << 1 | 1 << 5 | 1 << 6
#: Part of a run's processor time that must have been counted.
MOST = 0.9


class Counter:
    """Count an event in all processes that this thread starts from now on.

    :param event: kind and number.
    :raises OSError: the processor has no such counter, or the kernel refuses it.
    """

    def __init__(self, event: Any) -> None:
        """Begin to count."""
        # Type, size, number, period, kind of samples, times with each value, flags, and further fields.
        attributes = struct.pack("=IIQQQQQ16x", event[0], 64, event[1], 0, 0, 3, _FLAGS)
        function = ctypes.CDLL(None, use_errno=True).syscall
        number = architectures.counting_call(os.uname().machine)
        # The thread (0: this one), the processor (-1: all), the group (-1: none), and close-on-exec (8).
        self._file = function(number, ctypes.c_char_p(attributes), 0, -1, -1, ctypes.c_ulong(8))
        if self._file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def value(self) -> float:
        """Return the count; extrapolated if the processor counted other events for a part of the time."""
        count, enabled, running = struct.unpack("=QQQ", os.read(self._file, 24))
        return float(count * enabled / running) if running else 0.0

    def close(self) -> None:
        """Stop counting."""
        os.close(self._file)


class Counters:
    """Count a run's instructions and cycles from :meth:`start` to :meth:`finish`, in the thread that starts it."""

    def __init__(self) -> None:
        """Begin without counters."""
        self._counters: Dict[str, Counter] = {}
        self._counts: Dict[str, float] = {}

    def start(self) -> None:
        """Begin to count, if that is possible."""
        with contextlib.suppress(OSError):
            for name, event in (("cycles", CYCLES), ("instructions", INSTRUCTIONS), ("time", TASK_TIME)):
                self._counters[name] = Counter(event)

    def finish(self) -> None:
        """Keep the counts."""
        for name, counter in self._counters.items():
            self._counts[name] = counter.value()
            counter.close()

    def result(self, seconds: float) -> Dict[str, float]:
        """Return ``instructions`` and ``cycles``; zeros unless nearly all processes were counted.

        :param seconds: processor time of the run.
        """
        is_complete = self._counts.get("time", 0.0) / 1e9 >= MOST * seconds
        return {name: self._counts.get(name, 0.0) if is_complete else 0.0 for name in ("instructions", "cycles")}
