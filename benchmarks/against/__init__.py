"""Another commit and this tree, side by side: the same benchmarks, in turns, and a ratio for every row.

Each side runs its own benchmarks in its own environment, so that commits can be compared whose brokers speak different
wire versions. Read `suites.py` for what is run, `comparison.py` for what counts as slower, `checkout.py` for where the
other commit lives, and `__main__.py` for the turns.
"""
