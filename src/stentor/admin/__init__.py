"""The Python API of owners and operators, which the command line uses, too.

`topics` creates and grants reliable topics, `network` asks brokers and gives them orders, `survey` draws the whole
network, and `legality_survey` judges whether its scopes are in their correct state.
"""
