"""Explain a failure: differences between the sides, the rules about them, and the results of experiments."""
