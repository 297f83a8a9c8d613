"""The data source of Spark: stored events as rows."""
