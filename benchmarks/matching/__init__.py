"""The index beside a loop and the paper's tree, to a million filters: `python -m benchmarks.matching --help`."""
