"""What reads ReFrame's JSON reports.

Their cases (cases), what those amount to (policy), which verdicts are open and what they need (verdicts), how figures
scale over nodes (scaling), and all of it as text (table, summary), or as a page to look at (page), which also reads the
nights before (history).
"""
