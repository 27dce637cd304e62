"""Hand-over of trained policies to programs that know no JAX."""
