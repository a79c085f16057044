"""The runs of ReFrame in a session: plan, build, measure, confirm, count node-hours, show progress."""
