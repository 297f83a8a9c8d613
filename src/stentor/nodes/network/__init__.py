"""What a broker has to do with other brokers: gateways, profiles and event routing, composed.

Read `network` first; `neighbour_link` is one neighbour, and `shortcuts` adds links where paths are long.
"""
