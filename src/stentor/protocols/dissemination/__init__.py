"""Dissemination: which events go to whom, at one broker and between brokers.

Read `subscriptions` (what clients ask for), `broker_subscription`, `filtered_subscriptions` (those with filters,
matched together), `routes` (topic to sinks) and `forwarder` (runs of frames to slices) in this order. Between brokers,
`profiles` tells who wants what and `relay` routes parcels; `access` tells who may do what.
"""
