"""What runs in the job, on the nodes."""
