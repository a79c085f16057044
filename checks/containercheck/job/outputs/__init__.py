"""Modules that read the output of programs: metrics, answers, and the line that says why a run failed."""
