"""Acknowledged durable publishing: Stentor's repositories beside what others call durable."""
