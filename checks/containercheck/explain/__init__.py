"""Explain jobs by node/explain, make remedies into sides, and compare hosts, runtimes, images and nights."""
