"""The repository: one machine for each reliable topic, which stores every event once and serves its subscribers.

Read `topic_state` (what all parts share), `topic_parts` (which parts there are, and who calls whom), `repository` (the
machine) and `registry` (who owns, manages and uses the topic) first. `storing` is how events get their numbers, become
durable and are deleted; `serving` is which clients this repository steers and what it sends them. What waits for a
commit is in `deferred`, what waits for the ledger in `ledger_reads`. `owner_requests` changes the registry; `tracer`
and `status` tell others what happened.
"""
