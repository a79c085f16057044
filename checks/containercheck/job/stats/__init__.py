"""Modules that decide, from the rounds so far, whether a subject is slower than its baseline."""
