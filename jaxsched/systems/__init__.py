"""Systems as records of parts, the library's functions over them, and their registry by name."""
