"""``jaxsched traces``: describe, import, convert, generate, fetch and list traces."""
