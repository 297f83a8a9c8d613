"""The Python API of applications: connect, publish, subscribe. `stentor` itself names everything public.

Read `fabric` first: `Fabric` is one client and its link. Then `event_stream` (best effort), `reliable_publisher` and
`reliable_subscription` (named holders, each on a `named_connection` of its own), `stored_reader` (reading at rest) and
`lake_backfill` (events that only a lake has). `blocking` wraps all of it for programs without an event loop.
"""
