"""What an application file states: figures, answers, steps, input, axes, references."""
