"""What runs in the build step and on nodes: standard library only, Python 3.6 or newer, and importable there as it is.

With it the contract between the job and ReFrame, and the statistics of the verdict, which the job asks after every
round.
"""
