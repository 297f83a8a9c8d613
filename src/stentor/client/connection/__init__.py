"""A client's connection to its broker: where it goes, what it says of itself, what it may ask and what it is told."""
