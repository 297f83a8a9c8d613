"""The reliable subscriber of one topic: releases each event once, in order, when it is known to be stored.

Read `subscriber` first, then `persistent_chain` (what its repository told) and `event_buffer` (events that wait for
that). `repair_requests` asks for missing events, `ack_tracker` and `ack_reports` say what the application has
acknowledged, `handing` what it was handed, and `listen_control` decides which topics the subscriber listens to.
"""
