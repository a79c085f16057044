"""Stop ReFrame so that nothing of it is left behind (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from containercheck.results.formatting import say

#: From linux/prctl.h: orphaned descendants become children of this process instead of init's.
PR_SET_CHILD_SUBREAPER = 36
#: Seconds between the request to end and the killing of a process.
GRACE = 10.0
#: Seconds that ReFrame gets to end its jobs and to store results: a locked database alone takes it a minute.
PATIENCE = 180.0
#: Seconds between two looks at a running process.
INTERVAL = 1.0


class Relay:
    """Passes signals on to a running process, and ends what the process leaves running.

    It sends SIGINT for every signal: from SIGTERM and SIGHUP ReFrame 4.10 makes an Exception, which is lost if a line
    is being logged, and all later signals are ignored then. KeyboardInterrupt is not an Exception.
    """

    def __init__(self) -> None:
        """Begin without a process; signals are caught from ``with`` on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._received: signal.Signals | None = None
        self._killed_at = float("inf")
        self._handlers: dict[int, Any] = {}

    @property
    def stopped_by(self) -> str:
        """Return the name of the signal that came, if one came."""
        return self._received.name if self._received else ""

    def __enter__(self) -> Relay:
        """Begin to catch signals, and keep ignoring those that the caller ignores (nohup)."""
        _adopt_orphans(True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            # A child process inherits that a signal is ignored, but no handler.
            handler = (lambda *_: None) if ignored else (lambda received, _: self.stop(signal.Signals(received)))
            self._handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers of before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        _adopt_orphans(False)

    def stop(self, received: signal.Signals) -> None:
        """Ask the process to end, now or when there is one."""
        self._received = received
        if self._process:
            self._killed_at = min(self._killed_at, time.monotonic() + PATIENCE)
            self._process.send_signal(signal.SIGINT)

    def wait(self, process: subprocess.Popen[bytes], meanwhile: Callable[[], None] = lambda: None) -> int:
        """Wait for a process to end, despite signals, and return its exit status.

        :param meanwhile: called every second; where its reader is gone (head), the process is stopped.
        """
        self._process = process
        if self._received:
            # The signal came while the process was being started.
            self.stop(self._received)
        # Not before: a child process inherits blocked signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        while process.poll() is None:
            signal.sigtimedwait({signal.SIGCHLD}, INTERVAL)
            try:
                meanwhile()
            except BrokenPipeError:
                self.stop(signal.SIGTERM)
                meanwhile = _nothing
            if time.monotonic() > self._killed_at:
                self._killed_at = float("inf")
                process.kill()
                say(f"ReFrame did not end within {PATIENCE:g} s and was killed: look for jobs that still run or wait")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self._process = None
        if self._received:
            end_children()
        return process.returncode


def _nothing() -> None:
    pass


def _adopt_orphans(wanted: bool) -> None:
    """Adopt orphaned descendants, or no longer: ReFrame asks its jobs to end, and does not wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def end_children() -> None:
    """Wait for all children, also adopted ones; kill those that do not end."""
    started = time.monotonic()
    # The wait has an end, as a process that hangs in the kernel cannot be killed.
    while time.monotonic() - started < 2 * GRACE:
        try:
            # waitpid returns 0 where no child has ended.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() - started > GRACE:
            for path in Path("/proc/self/task").glob("*/children"):
                for child in path.read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)
        time.sleep(0.05)
