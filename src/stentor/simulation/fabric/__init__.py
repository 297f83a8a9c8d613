"""Whole nodes in simulation: the processes of reliable delivery, each on a host of its own behind real brokers.

`brokers` is the network that they are connected to, `watched` the machines inside the nodes as checkers see them,
`housed` how a process lives on a host, `kinds` who takes part. What must hold is what holds in `simulation/delivery`.
"""
