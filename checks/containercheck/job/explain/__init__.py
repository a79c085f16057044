"""Modules that explain a failure: what differs between the sides, by which rules, and what an experiment proved."""
