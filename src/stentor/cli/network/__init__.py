"""Commands on a running network of brokers: `stentor status`, `map`, `route`, `explain`, `link` and `broker`."""
