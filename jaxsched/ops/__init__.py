"""Array helpers that know no system: bit sets, packing, bisection, batching, ordered floats."""
