"""Reliable delivery in simulation, without brokers: letters are lost, doubled and reordered one by one.

Read `process` (a machine that crashes and begins again) and `letter_network` first, then `participants` and the
processes they are made of; `plan` draws a run, and `fault_script` breaks things in it.
"""
