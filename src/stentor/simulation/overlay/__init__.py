"""The networks of many brokers joined by links in memory: `overlay_world`, over a random `topology`."""
