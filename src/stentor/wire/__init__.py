"""The wire: frames, blocks, runs, parcels and letters, as bytes without sockets.

Read `frame` (the one format of every link) and `block` (a batch of events) first, then `run` (frames that travel as
one slice). `block_view` looks at the blocks of a run as one batch; `parcel` and `letter` wrap them.
"""
