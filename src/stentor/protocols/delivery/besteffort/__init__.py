"""Best effort: events leave in batches, in order, and are dropped where nobody can take them.

Read `batch_builder` and `publish_queue` (events that wait to leave), then `publisher`; the other side is `subscriber`.
"""
