"""What Spark makes of topics, and topics of Spark, beside the same work done without one or the other."""
