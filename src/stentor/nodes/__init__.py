"""Nodes: machines made of machines, one for each process or role of a fabric.

Read `broker` (a broker and its links) and `network` (what it has to do with other brokers), then `client`,
`letter_transport` (how letters of reliable delivery travel over a client), `reliable_endpoint` and `repository`.
`damage` scrambles what a broker remembers, on purpose.
"""
