"""Who may do what at a broker.

`credentials` are what a peer has proved, `access_control` enforces what the policy decides on links, flows and
subscriptions. `charter_keeper` takes what repositories tell of their topics, and `bundle_watch` tells clients which
repositories manage a topic.
"""
