"""From the evaluated rounds of a job to rows and messages, in the job (standard library only, Python 3.6 or newer)."""
