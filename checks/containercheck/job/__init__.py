"""Programs of the build step and of the nodes: standard library only, Python 3.6 or newer, importable there as is.

Besides, the contract between the job and ReFrame, and the statistics of the verdict, which the job computes after every
round.
"""
