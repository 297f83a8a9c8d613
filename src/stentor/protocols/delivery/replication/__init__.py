"""Replication: the repositories of a bundle tell each other what they have, and send what others lack.

Read `bundle` (what one knows of the others) and `gossip` (what they say) first. `membership` decides which of them
this repository counts on, `sync_replication` when a subscriber's sync is safe, `registration_sharing` when a client may
be told what is registered, and `repair_responder` sends records.
"""
