"""Commands that run on Spark: `stentor pipeline`. `commands.py` lists them; the jobs are in `stentor.pipeline`."""
