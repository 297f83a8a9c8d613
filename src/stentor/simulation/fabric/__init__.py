"""Whole nodes in simulation: the actors of reliable delivery, each on a host of its own behind real brokers.

`brokers` is the network that they are connected to, `watched` the machines inside the nodes as checkers see them,
`housed` how an actor lives on a host, `cast` who takes part. What must hold is what holds in `simulation/delivery`.
"""
