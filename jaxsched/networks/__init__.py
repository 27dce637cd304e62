"""Networks, and their description for programs that know no JAX."""
