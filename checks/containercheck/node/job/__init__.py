"""Programs that run in the job, on the nodes."""
