"""One or more runs of ReFrame: plan, build, measure, confirm, budget, progress."""
