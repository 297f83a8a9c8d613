"""The repository: one machine for each reliable topic, which stores every event once and serves its subscribers.

Read `repository` (the machine) and `registry` (who owns, manages and uses the topic) first. `storing` is how events
get their numbers, become durable and are deleted; `serving` is which clients this repository steers and what it sends
them. `owner_requests` changes the registry; `tracer` and `status` tell others what happened.
"""
