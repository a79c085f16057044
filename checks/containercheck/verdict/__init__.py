"""The verdict: reading runs, evaluating and comparing them.

What the job needs of it too (reading, decision) uses the standard library only, and Python 3.6 or newer.
"""
