"""Read what programs print: figures, answers, and the line that says why a run failed."""
