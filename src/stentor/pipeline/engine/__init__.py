"""Spark itself: a session with Java, its workers, its errors and the progress of its jobs."""
