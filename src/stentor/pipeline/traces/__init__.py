"""Jobs on the traces of a fabric: the audit, and reports on latency and traffic.

`traces.py` reads the traces, `trace_claims.py` finds what they say of which events, `audit.py` compares the claims.
"""
