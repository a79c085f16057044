"""What a run leaves: the cases of ReFrame's reports, what they amount to, and the results database."""
