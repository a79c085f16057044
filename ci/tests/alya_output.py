"""Made output of Alya's."""

from __future__ import annotations


def convergence(steps, ranks=4):
    """Return what the two files of a case of Alya say: 34 columns, each step's assembly and solver a little longer."""
    lines = [f"processes {ranks}", "# --| ALYA Convergence history", "# 1. Time step   2. Global Iteration"]
    for step in range(1, steps + 1):
        values = [f"{number / 100:.6E}" for number in range(4, 35)]
        # Columns 19 to 22: average and slowest, of the assembly and of the solver.
        values[15:19] = ["0.9", f"{1 + step / 100:.3f}", "0.4", f"{0.5 + step / 100:.3f}"]
        lines.append(f"{step:9d} {1:9d} {1:9d} " + " ".join(f"{value:>16}" for value in values))
    return "\n".join(lines) + "\n"
