"""Storing: events get sequence numbers, become durable, and are deleted once nobody needs them.

Read `publisher_stream` (the numbers of one publisher's life), `event_log` (sequence numbers for all of them) and
`commit_queue` (nothing is said before it is durable) first. `gap_closing`, `damage` and `conflicts` are about events
that are missing or wrong, `retention`, `stream_floors` and `life_closing` about what is forgotten, and `egress_hold`
about events that may not leave their unit yet.
"""
