"""Commands that run nodes: `stentor up` and `stentor node`.

`up.py` reads the configuration. `process.py` is one node as one process, with `health.py` as its HTTP server;
`supervisor.py` keeps processes running and `autoscaler.py` adds some by load; `fleet.py` runs all nodes in one process.
"""
