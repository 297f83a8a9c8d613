"""Matching: which patterns cover a topic, and which filters take an event.

Read `topic_tree` (patterns and topics), then `normal_form`, `conjunct` and `facet` (how a filter is taken apart), then
the indexes: `masks` (which of 64 members want an event), `pairs` (which of any number of subscriptions do) and
`covers` (which filters cover others, for `profile_summary`).
"""
