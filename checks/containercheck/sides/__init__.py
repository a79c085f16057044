"""What is compared: sides as values, what runs them, and the commands of a job."""
