"""Colours: three topologies of a scope at once, so that a network can be rebuilt while it runs, and heals itself.

`colour` says what old, current and new are; `wave_timing` how long waves take, and within which time a scope is well
again; `wave_messages` is what brokers say to each other about them, and `manifest` what members lease their place with.
"""
