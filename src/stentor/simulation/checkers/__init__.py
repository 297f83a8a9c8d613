"""Checkers: what must hold in a simulated run, worked out by other means than those of the machines.

Read `delivery_oracle` (best effort) and `delivery_history` (reliable delivery) first; `final_checks` looks at who is
left at the end, `network_oracle` at what brokers know of their network, `trace_checker` at what nodes traced.
"""
