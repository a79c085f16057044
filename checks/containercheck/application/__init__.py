"""What an application file states: metrics, answers, steps, input, axes, references."""
