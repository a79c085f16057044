"""What runs in the job, on the nodes (standard library only, Python 3.6 or newer)."""
