"""The data sink of Spark: rows become events.

Tasks make events of rows (`rows.py`) and stage them (`staging.py`, `folder.py`); the driver publishes a staged batch
when Spark commits it (`sink.py`, `publication.py`).
"""
