"""A broker: one machine that handles one received chunk of bytes in each step.

Read `broker` first, then `link_session` (what it knows of one link), `handshake` (who comes in) and `frame_reader` (the
hot path). `deferred_work` and `matching_budget` bound what one step does; `heartbeats` finds out who is gone, and
`link_audit` what is remembered wrong of links; `access` enforces who may do what; `redirection` sends clients
elsewhere. `admin` and `introspection` answer operators; `counters`, `status` and `tracer` tell what happened.
`local_client` is a client in the broker's own process.
"""
