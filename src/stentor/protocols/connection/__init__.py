"""One link: the greeting, credit, heartbeats and what waits to be sent.

Read `connection` first, then `outbox`; `name_registry` decides who holds a name.
"""
