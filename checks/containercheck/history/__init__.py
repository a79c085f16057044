"""Analyse many nights in ReFrame's results database: series, changes, their causes, and references.

The data flow is: database -> nights -> series -> provenance -> changes -> causes. Times are seconds of the epoch.
"""
