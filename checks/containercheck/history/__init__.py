"""What ReFrame's results database says of many nights: series, changes, what caused them, and references.

Data flows one way: database -> nights -> series -> provenance -> changes -> causes. Times are seconds of the epoch.
"""
