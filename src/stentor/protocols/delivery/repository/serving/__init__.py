"""Serving: which clients this repository steers, and how each subscriber gets the events that are stored for it.

Read `admission` (who is steered), `subscriber_admission` and `subscriptions` (for whom events are kept),
`dissemination_table` (which events each subscriber must still get), `subscriber_cursor` (how far one of them is) and
`subscriber_feeds` (what it is sent) in this order. `steering_answers` is what clients are told when they are steered,
`unit_service` whom a repository for a unit serves.
"""
