"""The simulation: the same machines as in production, in a world that comes from one seed.

Read `world` (hosts, their network and virtual time), `host` and `faults` first, then a scenario in `scenarios`.
`checkers` say what must hold; `clients`, `delivery` and `overlay` are who takes part.
"""
