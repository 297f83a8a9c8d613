"""What a broker has to do with other brokers: gateways, profiles and event routing, composed.

Read `network` first: what happens when a link comes or goes, and what is done with a neighbour's message.
`route_computation` makes routing states of the graph at the end of a step; `profile_feed` tells what our clients want;
`anti_entropy` finds out that neighbours do not know the same. `outgoing_links` are those that are opened from here,
`colouring` holds what is known against what owners say, wave by wave; `plans` is what plans make a broker do.
`neighbour_link` is one neighbour and `link_cost` what it costs; `shortcuts` adds links where paths are long, and
`acquaintance` waits for neighbours before clients are served.
"""
