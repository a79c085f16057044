"""Describe sides as values, their launchers and runtimes, and the commands of a job."""
