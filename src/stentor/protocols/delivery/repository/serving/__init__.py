"""Serving: which clients this repository steers, and how each subscriber gets the events that are stored for it.

Read `admission` (who is steered), `dissemination_table` (which events each subscriber must still get),
`subscriber_cursor` (how far one of them is) and `subscriber_feeds` (what it is sent) in this order.
"""
