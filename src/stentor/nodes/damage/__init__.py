"""Damage: parts of what a broker remembers are scrambled on purpose, on an operator's order or in simulation.

Read `corruption.py` first, which knows all parts; `damaged_indexes.py` and `damaged_links.py` are two of them. What
repairs each field is in `nodes/network/repairs.py`.
"""
