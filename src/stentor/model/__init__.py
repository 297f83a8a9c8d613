"""The model: what everything else is about, without any behaviour of nodes.

Read `ids`, `topic`, `attribute` and `scope` first, then `messages` (what two nodes say to each other) and `control`
(what clients and repositories of reliable topics say), whose fields `ranges` bounds. `filter` is the filter language;
`trust`, `stored`, `reports` and `wording` are what parts of the house need.
"""
