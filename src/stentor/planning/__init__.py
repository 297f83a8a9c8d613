"""Planning: how large a network must be, and how far apart its brokers are, before anything is built."""
