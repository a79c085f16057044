"""Define the classes of the application checks: the base class, phase by phase, its build step, and its sides."""
