"""When brokers are started and stopped by load, decided from what they answered: `scaling_rules`, `balance`."""
