"""Commands that rebuild a running network without losing an event: `stentor reconfigure`, and a broker that leaves.

Read `wanted_topology` first: what has to change so that the network is as a file says. `newcomers` brings in brokers
that the file wants, `planned` carries plans out, `departure` makes a broker leave.
"""
