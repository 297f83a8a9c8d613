"""Simulated applications of brokers: what they publish and ask for, and what they remember of it."""
