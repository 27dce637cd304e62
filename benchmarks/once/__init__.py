"""Scripts that were run once: what they found is part of the package (``README.md``)."""
