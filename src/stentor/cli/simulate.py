"""Placeholder."""


def simulate() -> None:
    """Soon."""
