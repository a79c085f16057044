"""The command line: run, nightly, acceptance, references, report."""
