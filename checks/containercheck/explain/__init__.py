"""Explain jobs by job/explain, make remedies into sides, and compare hosts, runtimes, images and nights."""
