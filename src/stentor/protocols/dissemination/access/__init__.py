"""Who may do what, as brokers tell each other: `spread` composes the log of it, what a neighbour still has to be told
and the waves by which a repository learns that all brokers have written its word down.
"""
