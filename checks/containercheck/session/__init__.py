"""Run a session: one run of ReFrame within a budget, then runs of open cases; node-hours, progress."""
