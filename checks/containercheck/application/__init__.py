"""Declare an application: its metrics, answers, steps, input, axes and references."""
