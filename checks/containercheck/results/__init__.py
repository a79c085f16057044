"""Read the results of runs: the cases of ReFrame's reports, what follows from them, and the results database."""
