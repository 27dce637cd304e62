"""The rules of the system, with no word of learning in them."""
