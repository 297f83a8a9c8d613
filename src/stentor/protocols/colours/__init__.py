"""Self-stabilising waves: every scope has a tree of its brokers, and its root recolours them round by round.

Read `scope_tree` first: what one broker knows of a scope's tree. `wave` takes a round down the tree and its answers up;
`rejoining` finds a parent for whoever has none, and merges trees; `manifest_lease` is what members lease their place
with. Plans change a scope's links: `planning` is the root's part, `plan_poll` what brokers say to each other of a plan,
`announced_plan` what one broker knows of it. `scope_colours` composes them for one scope and is the only one with
timers. Whether the trees of all brokers together are in a correct state is for `stentor.model.colours.legality` to say.
"""
