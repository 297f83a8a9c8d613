"""Jobs on Spark over what repositories keep: each a small function from DataFrame to DataFrame."""
