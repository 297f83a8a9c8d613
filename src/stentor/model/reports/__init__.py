"""What nodes report: their state, their view of the network, their topics, and traces of the events they handled."""
