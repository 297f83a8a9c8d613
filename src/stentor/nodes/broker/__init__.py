"""A broker: one machine that handles one received chunk of bytes in each step.

Read `broker` first, then `link_session` (what it knows of one link) and `handshake` (who comes in). `turns` and
`matching_budget` bound what one step does; `access` enforces who may do what; `admin` and `introspection` answer
operators; `counters` and `tracer` tell what happened.
"""
