"""Pages of results, made from the files in ``benchmarks/results``."""
