"""The commands of the command line: run, estimate, nightly, acceptance, references, report."""
