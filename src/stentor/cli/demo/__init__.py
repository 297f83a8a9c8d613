"""`stentor demo`: reliable delivery while brokers, repositories and clients are killed, checked by what they leave."""
