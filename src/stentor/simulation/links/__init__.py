"""What lies between simulated hosts: the network, and links as streams of bytes or as datagrams."""
