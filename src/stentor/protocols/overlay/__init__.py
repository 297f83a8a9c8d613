"""The overlay: who is where in a network of brokers, and which way is best.

Read `gateways` (what brokers tell each other), `connectivity_graph` (what one of them makes of it) and
`shortest_paths` (the next hop to every unit). `planned_topology` is the graph before and after a plan, and `plan_check`
says which plans can be carried out.
"""
