"""Modules that read the output of programs: figures, answers, and the line that says why a run failed."""
