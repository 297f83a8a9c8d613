"""Benchmarks that every user has: the networks of the papers as real processes, measured as the papers measured."""
