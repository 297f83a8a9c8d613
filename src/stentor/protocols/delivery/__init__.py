"""Best-effort and reliable delivery: what happens between a publisher and its subscribers.

`besteffort` is the whole of best effort. A reliable topic has a `publisher`, a `subscriber` and a bundle of
repositories: `repository` stores and serves, `replication` keeps the bundle alike, `stored` reads events at rest.
Read `transport` (what machines say and hear) and `endpoint_api` (what applications say) first, then `steering`
(which repository serves whom), then `repository/repository.py`.
"""
