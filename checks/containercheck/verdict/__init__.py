"""Turn a job's record into verdicts and the rows of its results."""
