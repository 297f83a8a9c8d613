"""What a network of brokers costs: hops, links, profiles, joining, failing."""
