"""From a job's record to the rows of the results."""
