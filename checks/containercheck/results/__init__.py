"""Read, select and export the results of runs, from ReFrame's reports and from the results database."""
