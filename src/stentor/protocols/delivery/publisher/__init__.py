"""The reliable publisher of one topic: keeps what it sends until a repository has acknowledged it.

Read `publisher` first; `unacked_blocks` is what it keeps.
"""
